"""The WebShop data, search index and goals, on a made-up catalogue."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.envs.webshop import shop as shops
from seedbed.envs.webshop.analysis import terms, words
from seedbed.envs.webshop.catalogue import read_products
from seedbed.envs.webshop.data import find_files
from seedbed.envs.webshop.env import WebShop
from seedbed.envs.webshop.health import check
from seedbed.envs.webshop.index import Index, coded_length, length_code
from seedbed.envs.webshop.nouns import nouns
from seedbed.envs.webshop.porter import _measure, stem
from seedbed.envs.webshop.similarity import token_set_ratio
from seedbed.types import UserError

ITEMS = [
    {
        "asin": f"B{n:09d}",
        "name": f"{['Red', 'Blue', 'Green'][n % 3]} Lamp Number {n}",
        "full_description": "A lamp. " * (n % 7),
        "small_description": ["bright light ", "long cord"],
        "pricing": ["$19.99", "$10.00$30.00", "", None, "$985.00"][n % 5],
        "category": "garden",
        "query": "Desk Lamps",
        "product_category": "Home › Lamps",
        "customization_options": {"Size": [{"value": "S/M"}, {"value": " L "}], "Color": None} if n % 2 else "",
        "images": [],
    }
    for n in range(1000)
]
ATTRIBUTES = {
    item["asin"]: {
        "attributes": ["easy clean"],
        "instruction": f"Find me lamp {n}",
        "instruction_attributes": ["easy clean"],
    }
    for n, item in enumerate(ITEMS)
    if n % 3 == 0
}
HUMAN = {
    ITEMS[1]["asin"]: [
        {"instruction": "i want a lamp.", "instruction_attributes": ["easy clean"], "instruction_options": ["l"]},
        {"instruction": "nothing is asked", "instruction_attributes": [], "instruction_options": []},
    ]
}


def write(directory: Path, items: object = ITEMS, *, attributes: object = ATTRIBUTES, human: object = HUMAN) -> Path:
    directory.mkdir(exist_ok=True)
    with gzip.open(directory / "items_shuffle_1000.json.gz", "wt") as stream:
        json.dump(items, stream)
    (directory / "items_ins_v2_1000.json").write_text(json.dumps(attributes))
    (directory / "items_human_ins.json").write_text(json.dumps(human))
    return directory


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path / "data"))
    return write(tmp_path / "data")


def test_goals_and_prices_do_not_hang_on_the_process(place):
    def everything() -> list[object]:
        shops.open_shop.cache_clear()
        shop = WebShop().shop
        made = [[goals.goal(i, shop.products) for i in range(len(goals))] for goals in shop.goals.values()]
        return [shop.prices_D.tolist(), *made]

    random.seed(1)
    state = random.getstate()
    first = everything()
    assert random.getstate() == state, "the global random state was touched"
    random.seed(2)
    np.random.seed(5)
    assert everything() == first


def test_goals_are_made_of_instructions_options_and_limits(place):
    shop = WebShop().shop
    synthetic, human = shop.goals["synthetic"], shop.goals["human"]
    options = Counter(n % 2 for n in range(0, 1000, 3))
    assert len(synthetic) == options[0] + 2 * options[1]
    seen = Counter()
    for index in range(len(synthetic)):
        goal = synthetic.goal(index, shop.products)
        price = shop.prices_D[goal.product.number]
        seen[goal.product.number, *goal.options.values()] += 1
        if price >= 980:
            assert goal.price_limit == 1e6 and "price" not in goal.text
        else:
            assert goal.price_limit in [10 * (math.floor(price / 10) + k) for k in (2, 3, 4)]
            assert goal.text.endswith(f", and price lower than {goal.price_limit:.2f} dollars")
        assert goal.text.startswith(f"Find me lamp {goal.product.number}" + " with size: " * bool(goal.options))
    assert set(seen.values()) == {1}
    assert {values for _, *values in [(k[0], k[1:]) for k in seen] for values in values} == {(), ("s | m",), ("l",)}
    assert len(human) == 1
    assert human.goal(0, shop.products).text.startswith("i want a lamp, and price lower than ")
    assert human.goal(0, shop.products).options == ("l",)


def test_a_missing_field_is_empty_and_a_missing_price_100():
    rows = [{"asin": "B1"}, {"asin": "B1", "name": "again"}, {"asin": "nan"}, {"asin": "longer than ten"}, {}]
    rows += [{"asin": "B2", "pricing": "$1,299.50$1.5.0", "customization_options": {"Size": [{}], "Fit": None}}]
    rows += [{"asin": "B3", "pricing": "call us", "small_description": "one text"}]
    one, two, three = read_products(rows, {"B2": {"instruction": None, "attributes": None}}, {})
    assert (one.title, one.prices, one.options, one.features, one.attributes) == (
        *("", (100.0,), {}, ("",)),
        ("DUMMY_ATTR",),
    )
    assert (two.prices, two.price_tag, two.options, two.attributes) == ((1299.5,), "$1299.5", {"size": ("",)}, ())
    assert (three.prices, three.features, [p.number for p in (one, two, three)]) == ((100.0,), ("one text",), [0, 1, 2])


def test_a_shop_on_disk_is_the_shop_in_memory(place, tmp_path, monkeypatch):
    memory = WebShop().shop
    monkeypatch.setattr(shops, "ON_DISK", 0)
    monkeypatch.setenv("SEEDBED_CACHE", str(tmp_path / "cache"))
    shops.open_shop.cache_clear()
    disk = WebShop().shop
    assert isinstance(disk.products, shops.StoredProducts) and list(disk.products) == memory.products
    assert disk.prices_D.tolist() == memory.prices_D.tolist()
    for query in ("red lamp", "blue lamps 17 18", "size l", "nothing here is found zzz"):
        assert disk.index.search(query, 50) == memory.index.search(query, 50)
    for kind, goals in memory.goals.items():
        again = disk.goals[kind]
        assert [again.goal(i, disk.products) for i in range(len(again))] == [
            goals.goal(i, memory.products) for i in range(len(goals))
        ]
    monkeypatch.setattr(shops, "write_shop", None)  # a second process finds it made
    shops.open_shop.cache_clear()
    assert WebShop().shop.products[3] == memory.products[3]
    shops.open_shop.cache_clear()


def test_missing_and_partial_data_say_what_was_found(tmp_path, monkeypatch):
    for name in ("WEBSHOP_DATA", "SEEDBED_DATA"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="neither WEBSHOP_DATA nor SEEDBED_DATA is set"):
        WebShop().tasks("test")
    monkeypatch.setenv("SEEDBED_DATA", str(tmp_path))
    with pytest.raises(UserError, match="there is no directory .*webshop"):
        WebShop().tasks("test")
    place = write(tmp_path / "webshop")
    (place / "items_ins_v2_1000.json").unlink()
    with pytest.raises(
        UserError,
        match=r"lacks items_ins_v2_1000\.json for catalogue 'small' "
        r"\(found items_human_ins\.json, items_shuffle_1000\.json\.gz\)",
    ):
        WebShop().tasks("test")
    with pytest.raises(UserError, match=r"lacks items_shuffle\.json and items_ins_v2\.json for catalogue 'full'"):
        WebShop(catalogue="full").tasks("test")
    with pytest.raises(UserError, match="no catalogue 'large'; use one of small, full"):
        WebShop(catalogue="large").tasks("test")
    shops.open_shop.cache_clear()
    write(place, ITEMS[:999])
    with pytest.raises(UserError, match="holds 999 products, not 1000"):
        WebShop().tasks("test")
    write(place, {"no": "list"})
    with pytest.raises(UserError, match=r"items_shuffle_1000\.json\.gz is damaged or incomplete"):
        WebShop().tasks("test")
    packed = place / "items_shuffle_1000.json.gz"
    write(place)
    packed.write_bytes(packed.read_bytes()[:-2000])
    with pytest.raises(UserError, match=r"items_shuffle_1000\.json\.gz is damaged or incomplete"):
        WebShop().tasks("test")


def test_records_are_read_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path))
    write(tmp_path)
    monkeypatch.setattr("seedbed.envs.webshop.data._BLOCK", 37)
    assert list(find_files("small").records()) == ITEMS
    (tmp_path / "items_shuffle_1000.json.gz").unlink()
    (tmp_path / "items_shuffle_1000.json").write_text("[ ]")
    assert list(find_files("small").records()) == []


def test_unknown_and_empty_splits(place):
    with pytest.raises(UserError, match="no split 'dev'; use one of test, train, human_test"):
        WebShop().tasks("dev")
    with pytest.raises(UserError, match="starts at human goal 500, but the small catalogue gives 1"):
        WebShop().tasks("human_eval")
    last = WebShop().tasks("test")[-1]
    assert last.id == f"webshop/test/{len(WebShop().tasks('test')) - 1}" and last.kind == "garden"


VOCABULARY = [*"lamp lamps red green desk desks cable the of".split(), "size:l", "m.8", "woman's"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=60).map(" ".join), min_size=1, max_size=12),
    st.lists(st.sampled_from(VOCABULARY), max_size=5).map(" ".join),
    st.integers(1, 5),
)
def test_ranking_is_bm25_worked_out_document_by_document(texts, query, limit):
    counts = [Counter(terms(text)) for text in texts]
    lengths = [coded_length(length_code(count.total())) for count in counts]
    filled = sum(count.total() > 0 for count in counts)
    average = sum(count.total() for count in counts) / max(filled, 1)

    def score(n: int) -> float:
        total = 0.0
        for term, times in Counter(terms(query)).items():
            have = sum(term in count for count in counts)
            if counts[n][term]:
                idf = math.log(1 + (filled - have + 0.5) / (have + 0.5))
                norm = 0.9 * (0.6 + 0.4 * lengths[n] / average)
                total += times * idf * counts[n][term] / (counts[n][term] + norm)
        return total

    names = [f"{(7 * n) % 13:02d}" for n in range(len(texts))]  # ties go by id, not by place
    found = Index.build(zip(names, texts, strict=True)).search(query, limit)
    exact = [score(n) for n in range(len(texts))]
    assert len(found) == min(limit, sum(value > 0 for value in exact))
    assert [exact[n] for n in found] == pytest.approx(sorted(exact, reverse=True)[: len(found)], rel=1e-5)
    for a, b in pairwise(found):
        assert names[a] < names[b] or exact[a] > exact[b]


def test_length_code_is_exact_to_40_and_never_longer():
    assert [coded_length(length_code(n)) for n in range(41)] == list(range(41))
    decoded = [coded_length(length_code(n)) for n in range(5000)]
    assert all(0.88 * n <= d <= n for n, d in enumerate(decoded)) and decoded == sorted(decoded)
    assert all(length_code(coded_length(code)) == code for code in range(200))


def test_stems_of_porters_examples():
    pairs = (
        "caresses caress ponies poni cats cat feed feed agreed agre plastered plaster motoring motor sing sing"
        " conflated conflat sized size hopping hop falling fall hissing hiss filing file happy happi sky sky"
        " relational relat conditional condit possibly possibl analogi analog vietnamization vietnam hopefulness hope"
        " triplicate triplic formative form electrical electr revival reviv adoption adopt effective effect"
        " probate probat rate rate cease ceas controll control roll roll is is technologi technolog"
    ).split()
    assert {word: stem(word) for word in pairs[::2]} == dict(zip(pairs[::2], pairs[1::2], strict=True))


@given(st.text("aeiouybcst", max_size=12))
def test_the_measure_counts_vowels_followed_by_consonants(word):
    kinds: list[str] = []
    for letter in word:  # Porter's definition, letter by letter: y is a vowel after a consonant
        vowel = letter in "aeiou" or (letter == "y" and bool(kinds) and kinds[-1] == "c")
        kinds.append("v" if vowel else "c")
    assert _measure(word) == "".join(kinds).count("vc")


def test_terms_are_cut_as_lucene_cuts_them():
    assert words("3.5mm 1,000 a.b x_y 6.5\" women's _ -- T-Shirt") == [
        "3.5mm",
        "1,000",
        "a.b",
        "x_y",
        "6.5",
        "women's",
    ] + [*("T", "Shirt")]
    assert terms("The Women's women\u2019s LAMPS of size:large") == ["women", "women", "lamp", "size:larg"]
    assert words("日本 ひら カタカナ é_a ★ 👍🏽 naïve") == [*"日本ひら", "カタカナ", "é_a", "★", "👍🏽", "naïve"]


@given(st.text("abc 1-é_", max_size=30), st.text("abc 1-é_", max_size=30))
def test_token_set_ratio_by_its_properties(a, b):
    ratio = token_set_ratio(a, b)
    assert ratio == token_set_ratio(b, a) and 0 <= ratio <= 100
    left, right = ({*t.replace("-", " ").replace("_", " ").replace("é", "").split()} for t in (a, b))
    if not left or not right:
        assert ratio == 0
    elif left & right and (left <= right or right <= left):
        assert ratio == 100


def test_nouns_of_a_title_without_a_stored_answer():
    assert nouns("Ceramic Flower Vase for the Living Room") == ("ceramic", "flower", "vase", "living", "room")
    assert nouns("") == () and nouns("--- !!") == ()


def test_doctor_says_what_is_there_and_how_to_mend_it(place, monkeypatch):
    small, full = check()
    assert (small.state, full.state) == ("ok", "optional")
    assert f"{len(WebShop().shop.goals['synthetic'])} goals, 1 human goals" in small.detail
    assert f"-O {place}/items_shuffle.json" in full.mend and "lacks items_shuffle.json" in full.detail
    for name in ("WEBSHOP_DATA", "SEEDBED_DATA"):
        monkeypatch.delenv(name, raising=False)
    assert check()[0].state == "missing" and check()[0].mend.endswith("export WEBSHOP_DATA=$PWD/webshop")

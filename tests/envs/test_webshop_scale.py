"""A large WebShop: a catalogue made to measure on, the search that rules documents out, and ``seedbed bench``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from seedbed.commands import bench
from seedbed.commands.alone import alone
from seedbed.commands.bench_webshop_stages import ranked_in_full
from seedbed.envs.webshop import index as indices
from seedbed.envs.webshop.analysis import terms
from seedbed.envs.webshop.catalogue import Product, read_products
from seedbed.envs.webshop.data import ShopFiles
from seedbed.envs.webshop.goals import sources_of
from seedbed.envs.webshop.index import Index
from seedbed.envs.webshop.shop import Shop
from seedbed.envs.webshop.synthetic import FILES, Maker, invented, invented_base, invented_instructions, write_catalogue
from seedbed.types import UserError

BASE = invented_base(count=300)
KNOWN = invented_instructions(BASE)
HUMAN = {BASE[0]["asin"]: [{"instruction": "i want it.", "instruction_attributes": ["x"], "instruction_options": []}]}


def made(directory: Path, count: int, seed: int = 0) -> list[bytes]:
    directory.mkdir()
    assert list(write_catalogue(directory, count, BASE, KNOWN, HUMAN, seed)) == list(range(1, count + 1))
    return [(directory / name).read_bytes() for name in FILES]


def read(directory: Path) -> list[Product]:
    files = ShopFiles("full", *(directory / name for name in FILES))
    return list(read_products(files.records(), *files.instructions()))


def shop_of(products: list[Product]) -> Shop:
    index = Index.build((product.asin, product.search_text) for product in products)
    return Shop(products, np.zeros(len(products)), {}, index)


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> list[Product]:
    place = tmp_path_factory.mktemp("made") / "catalogue"
    made(place, 3000)
    return read(place)


def test_a_made_up_catalogue_is_a_function_of_its_seed(tmp_path):
    one = made(tmp_path / "one", 50)
    assert one == made(tmp_path / "again", 50)
    assert one[0] != made(tmp_path / "other", 50, seed=1)[0]
    longer = json.loads(made(tmp_path / "longer", 60)[0])
    assert longer[:50] == json.loads(one[0]), "the first products do not hang on the size"


def test_it_is_like_the_products_at_hand(products):
    """Lengths, options, prices and the share that is asked for, each within what 3,000 draws scatter."""
    base = list(read_products(BASE, KNOWN, HUMAN))
    assert len({product.asin for product in products}) == 3000, "no product was left out and no id occurs twice"
    for measure in (
        lambda product: len(terms(product.search_text)),
        lambda product: len(product.features),
        lambda product: len(product.options),
        lambda product: len(product.prices),
        lambda product: len(sources_of(product, human=False)),
    ):
        wanted, got = np.mean([measure(p) for p in base]), np.mean([measure(p) for p in products])
        assert got == pytest.approx(wanted, rel=0.1)
    asked = sum(bool(product.human) for product in products)
    assert 0 < asked < 40, "about 10 of 3,000, as it was 1 of 300"


def test_new_products_go_on_bringing_new_words(products):
    seen: set[str] = set()
    sizes = []
    for part in (products[:1000], products[1000:2000], products[2000:]):
        seen |= {term for product in part for term in terms(product.search_text)}
        sizes.append(len(seen))
    first, second, third = sizes[0], sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert first > second > third > first / 10


def test_invented_words_are_words_and_all_different():
    some = [invented(number) for number in range(7000)]
    assert len(set(some)) == 7000 and all(word.isalpha() and word.islower() for word in some)


def test_every_way_to_rank_gives_the_same(products, monkeypatch):
    """Scored all at once, with documents ruled out, looked up or gone through: always plain BM25, ties by id."""
    shop = shop_of(products[:1000])
    rng = np.random.default_rng(0)
    queries = [" ".join(rng.choice(products[n].search_text.split(), size=1 + n % 25)) for n in range(0, 1000, 50)]
    plain = ranked_in_full(shop, queries, 1000)
    assert max(map(len, plain)) > 900 and len({len(best) for best in plain}) > 5
    for few, steps in ((10**9, 1), (0, 0), (0, 16), (0, 10**9)):
        monkeypatch.setattr(indices, "_FEW", few)
        monkeypatch.setattr(indices, "_STEPS", steps)
        for limit in (1, 10, 50, 1000):
            assert [shop.index.search(query, limit) for query in queries] == [best[:limit] for best in plain]


def test_most_documents_are_ruled_out(products):
    """Else it would be no faster: a rare word decides, and common ones are looked up for the few that have it."""
    index = shop_of(products).index
    have = np.diff(index.starts_V)
    names = list(index.vocabulary)
    rare = np.flatnonzero((have >= 60) & (have <= 90))[:2]
    common = np.argsort(have)[-3:]
    asked = index._asked(" ".join(names[n] for n in [*common, *rare]))
    assert len(asked) >= 4 and sum(len(term.documents) for term in asked) > 2000
    assert len(index._racing(asked, 10)) < 200


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=12).map(" ".join), min_size=1, max_size=30),
    st.lists(st.sampled_from("abcdefghz"), min_size=1, max_size=9).map(" ".join),
    st.integers(1, 5),
)
def test_ruling_out_never_loses_a_tie(texts, query, limit):
    """Short texts of few words tie all the time, and ids decide then."""
    listed = [_Told(f"{(7 * n) % 31:02d}", text) for n, text in enumerate(texts)]
    index = Index.build((told.asin, told.search_text) for told in listed)
    shop = Shop(listed, np.zeros(0), {}, index)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indices, "_FEW", 0)
        patch.setattr(indices, "_STEPS", 1)
        assert index.search(query, limit) == ranked_in_full(shop, [query], limit)[0]


class _Told(NamedTuple):
    """What of a product counts in a search."""

    asin: str
    search_text: str


TEXT = "aB1_s .,:;'\"-\n\t\r\x0b\x1c\x85\xa0\u00ad\u0301\u200d\u2019\u202f\u3000é日カ👍🏽★🇩"


@given(st.text(TEXT, max_size=40))
def test_a_text_cut_at_its_blanks_has_the_same_terms(text):
    vocabulary: dict[str, int] = {}
    numbers = list(indices._Numbers(vocabulary).of(text))
    names = list(vocabulary)
    assert [names[number] for number in numbers] == terms(text)


def test_what_is_forgotten_while_building_is_found_again(products, monkeypatch):
    pairs = [(product.asin, product.search_text) for product in products[:200]]
    whole = Index.build(pairs)
    monkeypatch.setattr(indices, "_PIECES", 5)
    monkeypatch.setattr(indices, "_CHUNK", 1000)
    pieces = Index.build(pairs)
    assert pieces.vocabulary == whole.vocabulary and pieces.size == whole.size
    for name in ("starts_V", "documents", "rank_D"):
        assert (getattr(pieces, name) == getattr(whole, name)).all(), name
    assert (pieces.weights[pieces.kinds] == whole.weights[whole.kinds]).all()


def test_the_benchmark_from_nothing_but_invented_words(tmp_path, monkeypatch):
    for name in ("WEBSHOP_DATA", "SEEDBED_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEEDBED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "queries.json").write_text(json.dumps(["ba bi bo", "no such words", "ca"]))
    arguments = ["--products", "1000", "--episodes", "3", "--queries", str(tmp_path / "queries.json")]
    result = CliRunner().invoke(bench.app, ["webshop", *arguments, "--out", str(tmp_path / "out.json")])
    assert result.exit_code == 0, result.output
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["made"]["from"] == "invented words"
    assert told["read"]["records"] == told["build"]["products"] == 1000
    assert told["check"] == {"queries": 3, "equal": 3} and told["use"]["queries"] == 3
    assert told["build"]["memory"]["peak"] >= told["build"]["memory"]["private"] > 1 << 20
    assert not list((tmp_path / "cache").rglob("items_*")), "what was made is gone"
    assert "3 of 3 rankings equal plain BM25" in result.stdout


def test_a_mistake_in_a_process_of_its_own_is_told_as_one():
    with pytest.raises(UserError, match="unknown environment 'websop'; did you mean 'webshop'"):
        alone("seedbed.commands.bench_memory:grown", dict(name="websop", split="x", episodes=1, warmup=1, steps=1))
    error = CliRunner().invoke(bench.app, ["webshop", "--queries", "nowhere.json"]).exception
    assert isinstance(error, UserError) and "--queries nowhere.json cannot be read as JSON" in str(error)


def test_a_catalogue_needs_room(tmp_path, monkeypatch):
    monkeypatch.setenv("SEEDBED_CACHE", str(tmp_path))
    error = CliRunner().invoke(bench.app, ["webshop", "--products", str(10**12)]).exception
    assert isinstance(error, UserError) and "set SEEDBED_CACHE to a larger disk" in str(error)
    assert not list(tmp_path.rglob("items_*"))


def test_maker_keeps_the_structure_of_options():
    rows = {"Size": [{"value": "Small / Tall"}, {"value": None}], "Color": None}
    item = {**BASE[0], "customization_options": rows}
    for made_item, _, _ in Maker([item], {}, {}, seed=0).products(3):
        options = made_item["customization_options"]
        assert list(options) == ["Size", "Color"] and options["Color"] is None and len(options["Size"]) == 2

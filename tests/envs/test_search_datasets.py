"""Questions: the same tasks from every form and order of the data, and plain words where some are missing."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from seedbed.envs import panels
from seedbed.envs.search.datasets import SIZES, load_questions, name_questions
from seedbed.envs.search.env import SearchQA
from seedbed.envs.search.files import ENDINGS, records
from seedbed.envs.search.health import check
from seedbed.types import Task, UserError

ROWS = [
    {"question": "Who wrote Dune?", "golden_answers": ["Frank Herbert", "Herbert"]},
    {"question": "who wrote the Iliad", "golden_answers": ["Homer"]},
    {"question": "Where is Łódź?", "golden_answers": ["Poland"]},
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEARCH_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def search_dir() -> Path:
    shared = Path(os.environ.get("SEEDBED_DATA") or "nowhere", "search")
    if not shared.is_dir():
        pytest.skip("SEEDBED_DATA does not hold search/: no real questions here")
    return shared


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="the extra [search] is not installed: no Parquet")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return
    with opener(path, "wt", encoding="utf-8") as out:
        out.write("\n".join(map(json.dumps, rows)) + "\n" if ".jsonl" in path.name else json.dumps(rows))


def told(*words: str) -> str:
    """What the user is told about the test questions of two sets."""
    with pytest.raises(UserError) as caught:
        load_questions("test", words or ["nq", "musique"])
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", [f"nq_test{ending}" for ending in ENDINGS] + ["nq/test.jsonl", "sub_nq.jsonl"])
def test_every_form_and_order_gives_the_same_questions(folder: Path, name: str):
    shuffled = random.Random(name).sample(ROWS, len(ROWS))
    write(folder / name, shuffled)
    (found,) = load_questions("test", ["nq"]).values()
    assert {q.text: list(q.golds) for q in found.values()} == {r["question"]: r["golden_answers"] for r in ROWS}
    assert list(found) == sorted(found) == [q.id for q in found.values()]
    assert [
        q.id for q in name_questions([(r["question"], tuple(r["golden_answers"])) for r in ROWS], "test", "nq")
    ] == (list(found))


def test_ids_see_words_only():
    one, other = (
        name_questions([(text, ("x",))], "test", "nq")[0].id for text in ("Who  wrote DUNE", "who wrote dune?")
    )
    assert one == other
    assert one != name_questions([("who wrote dune 2", ("x",))], "test", "nq")[0].id


def test_questions_of_the_same_words_stay_apart():
    pairs = [("Who?", ("b",)), ("who", ("a",)), ("What?", ("c",))]
    named = {q.golds: q.id for q in name_questions(pairs, "test", "musique")}
    assert named == {q.golds: q.id for q in name_questions(pairs[::-1], "test", "musique")}
    assert named["b",] == named["a",] + "-2" and len(set(named.values())) == 3


def test_popqa_ids_do_not_depend_on_other_questions_of_the_same_words():
    """A part of the set and the whole of it give a question the same id."""
    both = name_questions([("Who composed It?", ("a", "z")), ("Who composed It?", ("b",))], "test", "popqa")
    (alone,) = name_questions([("Who composed It?", ("z", "a"))], "test", "popqa")
    assert alone.id in {q.id for q in both} and len({q.id for q in both}) == 2


def test_one_file_of_several_sets_is_told_apart_by_its_records(folder: Path):
    """Search-R1's form: data_source, golden_answers as a list column."""
    rows = [ROWS[0] | {"data_source": "nq"}, ROWS[1] | {"data_source": "musique"}, ROWS[2] | {"data_source": "nq"}]
    write(folder / "test.parquet", rows)
    found = load_questions("test", ["musique", "nq"])
    assert {name: {q.text for q in questions.values()} for name, questions in found.items()} == {
        "musique": {ROWS[1]["question"]},
        "nq": {ROWS[0]["question"], ROWS[2]["question"]},
    }
    assert "bamboogle (found nothing)" in told("bamboogle")


def search_r1(row: dict, name: str, number: int) -> dict:
    """A row of Search-R1's Parquet: one file for all sets, the prompt a list of messages, the answers twice."""
    return {
        "id": f"test_{number}",
        "question": row["question"],
        "golden_answers": row["golden_answers"],
        "data_source": name,
        "prompt": [{"role": "user", "content": f"Answer the given question. Question: {row['question']}"}],
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": {"target": row["golden_answers"]}},
        "extra_info": {"index": number, "split": "test"},
        "metadata": None,
    }


def for_training(row: dict) -> dict:
    """What verl's preparation leaves of such a row: question and answers only inside, the set with a tag before it."""
    kept = {key: row[key] for key in ("prompt", "ability", "reward_model", "metadata")}
    tagged = "searchR1_" + row["data_source"]
    return kept | {"data_source": tagged, "extra_info": row["extra_info"] | {"question": row["question"]}}


@pytest.mark.parametrize("form", [dict, for_training], ids=["search_r1", "for_training"])
@pytest.mark.parametrize("name", ["test.parquet", "test.jsonl"])
@pytest.mark.filterwarnings("ignore:the Search-QA data holds")
def test_all_seven_sets_from_one_file_are_the_same_tasks_as_from_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Callable[[dict], dict], name: str
):
    rows = {s: [{**row, "question": f"{row['question']} ({s})"} for row in ROWS] for s in SIZES}
    one, own = tmp_path / "one", tmp_path / "own"
    write(
        one / name,
        [form(search_r1(row, s, i)) for i in range(3) for s, found in rows.items() for row in found[i : i + 1]],
    )
    for s, found in rows.items():
        write(own / s / "test.jsonl", [{"id": "x", **row, "metadata": {}} for row in found])
    told = []
    for folder in (one, own):
        monkeypatch.setenv("SEARCH_DATA", str(folder))
        told.append(load_questions("test", list(SIZES)))
    assert told[0] == told[1] and {s: len(found) for s, found in told[0].items()} == dict.fromkeys(SIZES, 3)


def test_a_bad_row_of_parquet_is_named(folder: Path):
    rows = [search_r1(row, "nq", i) for i, row in enumerate(ROWS)]
    rows[1] |= {"golden_answers": [], "reward_model": None}
    write(folder / "test.parquet", rows)
    assert f"row 2 of {folder / 'test.parquet'} has no 'golden_answers'" in told("nq")


def test_blank_answers_among_others_do_not_cost_the_question(folder: Path):
    write(folder / "nq_test.json", [{"question": "Who?", "golden_answers": ["Homer", ""]}])
    (question,) = load_questions("test", ["nq"])["nq"].values()
    assert question.golds == ("Homer", "")


def test_a_file_of_its_own_wins_over_a_part(folder: Path):
    write(folder / "sub_nq.jsonl", ROWS[:1])
    write(folder / "nq_test.json", [{"question": r["question"], "answer": r["golden_answers"]} for r in ROWS])
    assert len(load_questions("test", ["nq"])["nq"]) == 3


def test_a_single_answer_is_one_gold_answer(folder: Path):
    write(folder / "musique_test.json", [{"question": "Who?", "answer": "Homer"}])
    (question,) = load_questions("test", ["musique"])["musique"].values()
    assert question.golds == ("Homer",)


def test_a_changed_file_is_read_again(folder: Path):
    write(folder / "nq_test.json", ROWS[:1])
    assert len(load_questions("test", ["nq"])["nq"]) == 1
    write(folder / "nq_test.json", ROWS)
    os.utime(folder / "nq_test.json", ns=(1, 1))
    assert len(load_questions("test", ["nq"])["nq"]) == 3


def test_what_is_missing_and_what_was_found_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder / "nq" / "test.jsonl", ROWS)
    message = told()
    assert f"{folder} holds no test questions of musique (found nq in nq/test.jsonl)" in message
    assert "env.options.sets" in message
    monkeypatch.setenv("SEARCH_DATA", str(folder / "gone"))
    assert f"there is no folder {folder / 'gone'}" in told()
    monkeypatch.delenv("SEARCH_DATA")
    monkeypatch.delenv("SEEDBED_DATA", raising=False)
    assert "neither SEARCH_DATA nor SEEDBED_DATA is set" in told()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nq_test.jsonl", '\n{"question": "Who?", "answer": "x"}\n{"question": "Who?"', "line 3 of {} is not JSON"),
        ("nq_test.jsonl", '\n\n{"question": "Who?"}', "line 3 of {} has no 'golden_answers'"),
        ("nq_test.jsonl", '{"question": " ", "answer": "x"}', "line 1 of {} has no 'question'"),
        ("nq_test.jsonl", '{"question": ["Who?"], "answer": "x"}', "line 1 of {} has no 'question'"),
        ("nq_test.jsonl", '{"question": "Who?", "answer": []}', "line 1 of {} has no 'golden_answers'"),
        (
            "nq_test.jsonl",
            '{"question": "Who?", "golden_answers": ["x", null]}',
            "line 1 of {} has no 'golden_answers'",
        ),
        ("nq_test.jsonl", '{"question": "Who?", "answer": {"x": 1}}', "line 1 of {} has no 'golden_answers'"),
        ("nq_test.jsonl", '{"question": "Who?", "reward_model": "rule"}', "line 1 of {} has no 'golden_answers'"),
        ("nq_test.jsonl", "\xff", "is damaged or not what its name says"),
        ("nq_test.json", '[{"question": "Who?", "answer": "x"}, "Who?"]', "record 2 of {} is not an object"),
        ("nq_test.json", '{"question": "Who?", "answer": "x"}', "{} is not a list of records"),
        ("nq_test.json", "[", "is damaged or not what its name says"),
        ("nq_test.parquet", "not Parquet", "is damaged or not what its name says"),
        ("nq_test.json.gz", "not gzip", "cannot be read"),
        ("nq_test.json.xz", "not xz", "cannot be read"),
    ],
)
def test_damaged_files_are_named(folder: Path, name: str, content: str, message: str):
    (folder / name).write_text(content, "latin-1")
    assert message.format(folder / name) in told("nq")
    (finding,) = [f for f in check() if f.part == "test questions, nq"]
    assert finding.state == "missing"


def test_an_unknown_kind_of_file_is_named(folder: Path):
    (folder / "corpus.csv").write_text("a")
    with pytest.raises(UserError, match="must end in one of .jsonl, .json"):
        list(records(folder / "corpus.csv"))


@pytest.mark.filterwarnings("ignore:the Search-QA data holds")
def test_splits(folder: Path):
    for name in ("nq", "hotpotqa"):
        write(folder / f"{name}_train.jsonl", ROWS)
    for name in SIZES:
        write(folder / f"{name}_test.jsonl", ROWS[: 1 + (name == "nq")])
    environment = SearchQA()
    assert Counter(t.kind for t in environment.tasks("train")) == {"nq": 3, "hotpotqa": 3}
    with pytest.warns(UserWarning, match="holds 1 test questions of popqa, the published set has 14267"):
        tasks = environment.tasks("test")
    assert [t.kind for t in tasks] == [*SIZES, "nq"], "the sets take turns"
    with pytest.warns(UserWarning, match="of nq, the published set has 3610"):
        assert [t.id for t in environment.tasks("test_nq")] == [t.id for t in tasks if t.kind == "nq"]
    assert {t.kind for t in SearchQA(sets=["musique"]).tasks("test")} == {"musique"}
    for split in ("dev", "test_trivia", "valid_nq"):
        with pytest.raises(UserError, match=f"no split '{split}'; use one of train, test, train_nq"):
            environment.tasks(split)
    with pytest.raises(UserError, match="there is no set 'trivia'"):
        SearchQA(sets=["nq", "trivia"])


def test_a_question_that_is_not_there_is_named(folder: Path):
    write(folder / "nq_test.jsonl", ROWS)
    with pytest.raises(UserError, match="'test/nq/0123456789ab' is not among the 3 test questions of nq"):
        SearchQA().open(Task("test/nq/0123456789ab", "search", "test", "nq"))


SEARCH_PANELS = [name for name in panels.panel_names() if name.startswith("search-")]


def test_panels_are_ids_only_and_balanced():
    panel = panels.load_panel("search-7x100")
    assert Counter(task.kind for task in panel.tasks) == dict.fromkeys(SIZES, 100)
    for name in SEARCH_PANELS:
        tasks = panels.load_panel(name).tasks
        assert name == "search-7x100" or len(tasks) == int(name.rpartition("-")[2])
        assert len({t.id for t in tasks}) == len(tasks)
        assert all(len(t.id.rpartition("/")[2]) in (12, 14) and t.id.startswith(f"test/{t.kind}/") for t in tasks)


@pytest.mark.filterwarnings("ignore:the Search-QA data holds")
@pytest.mark.parametrize("name", SEARCH_PANELS)
def test_panels_are_what_the_recipes_give(name: str, search_dir: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SEARCH_DATA", str(search_dir))
    assert (panels.DIRECTORY / f"{name}.json").read_text() == panels.build_panel(name)


def test_the_real_data_is_found(search_dir: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SEARCH_DATA", str(search_dir))
    sizes = {name: len(found) for name, found in load_questions("test", tuple(SIZES)).items()}
    assert sizes == SIZES | {"triviaqa": 1000, "popqa": 1000}
    assert {f.part: f.state for f in check()}["corpus"] == "ok"

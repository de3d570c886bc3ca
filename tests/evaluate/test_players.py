"""Policies without a model: they read what is in the prompt, answer validly, and repeat in any batch and any order."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from seedbed.cli import app
from seedbed.config import Config, load_config
from seedbed.engines.base import Request, Sampling
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.base import Environment, Game, environment_from
from seedbed.envs.panels import Panel, load_panel
from seedbed.envs.search.bm25 import BM25Retriever
from seedbed.envs.search.env import SearchQA
from seedbed.envs.search.player import answer
from seedbed.envs.webshop.env import WebShop
from seedbed.envs.webshop.order import in_published_order, published
from seedbed.envs.webshop.player import Wanted
from seedbed.evaluate.players import POLICIES, player, player_settings
from seedbed.evaluate.run import evaluate
from seedbed.evaluate.shuffled import shuffled_copy
from seedbed.prompts.base import Wording, windowed
from seedbed.prompts.read import Shown, read
from seedbed.train.actor import load_actor
from seedbed.types import Message, Observation, Task, UserError

#: a benchmark -> (panel, every so many of its tasks); the whole panels are `seedbed bench repeat`
SAMPLES = {"alfworld": ("alfworld-seen-140", 24), "webshop": ("webshop-test-500", 100), "search": ("search-7x100", 33)}
QUICK = ("nq", "popqa", "bamboogle")  #: sets whose files are small
CORPUS = [  # five ties: each has the question's words once and is equally long
    *({"contents": f'"Town {n}"\nThe river Ill flows by Town {n}.'} for n in "BCDEF"),
    *({"contents": f'"Hill {n}"\nIt is {n}00 metres high.'} for n in range(20)),
]


@pytest.fixture(scope="module")
def questions(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real questions beside a corpus that is indexed in a moment."""
    folder = tmp_path_factory.mktemp("search")
    for name in QUICK:
        for file in (data / "search").glob(f"*{name}*"):
            (folder / file.name).symlink_to(file)
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CORPUS))
    return folder


@pytest.fixture
def places(questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the data is, and a place of this test's own for what is made of the corpus."""
    for name in ("ALFWORLD_DATA", "WEBSHOP_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEARCH_DATA", str(questions))


def sample(env: str) -> Panel:
    name, every = SAMPLES[env]
    whole = load_panel(name)
    tasks = [task for task in whole.tasks if env != "search" or task.kind in QUICK]
    return replace(whole, tasks=tuple(tasks[::every]))


def play(policy: str, env: str, at_once: int, panel: Panel | None = None, seed: int = 3) -> dict:
    config = load_config(env, [f"model.path={policy}", f"seed={seed}"])
    return played(config, environment_from(config.env), panel or sample(env), at_once)


def played(config: Config, environment: Environment, panel: Panel, at_once: int = 256) -> dict:
    actor = load_actor(config, environment)
    how = {"attempts": 1, "temperature": 0.0, "seed": config.seed, "at_once": at_once}
    return evaluate(actor.engine, environment, actor.renderer, actor.rollout, panel, **how)


@pytest.mark.parametrize("env", SAMPLES)
def test_players_repeat_in_other_batches_and_from_shuffled_files(env, places, tmp_path, monkeypatch):
    panel = sample(env)
    first = {policy: play(policy, env, 256) for policy in POLICIES}
    for variable, place in {**shuffled_copy(env, panel.tasks, tmp_path), "SEEDBED_CACHE": str(tmp_path / "c")}.items():
        monkeypatch.setenv(variable, place)
    if env != "search":  # some sets are there in part, here and in the copy
        listed = environment_from(load_config(env).env).tasks(panel.tasks[0].split)
        assert tuple(listed)[:: SAMPLES[env][1]] == panel.tasks
    assert {policy: play(policy, env, 3) for policy in POLICIES} == first
    for result in first.values():
        summary = result["summary"]
        assert (summary["valid_action_rate"], summary["faults"], summary["n_episodes"]) == (1.0, 0, len(panel.tasks))
    assert first["random"]["transcripts_hash"] != first["scripted"]["transcripts_hash"]
    assert first["random"]["summary"]["entropy"] is None  # nothing was drawn from a model
    if env != "search":  # this corpus answers nothing
        assert first["scripted"]["summary"]["micro"]["value"] > 0.5 > first["random"]["summary"]["micro"]["high"]


@pytest.mark.parametrize("env", ["sokoban", "ezpoints"])
def test_games_out_of_seeds_are_solved_by_rule_and_repeat(env):
    whole = load_panel(f"{env}-128")
    panel = replace(whole, tasks=whole.tasks[::12])
    first = {policy: play(policy, env, 256, panel) for policy in POLICIES}
    assert {policy: play(policy, env, 3, panel) for policy in POLICIES} == first
    for result in first.values():
        assert (result["summary"]["valid_action_rate"], result["summary"]["faults"]) == (1.0, 0)
    assert first["scripted"]["summary"]["won"] == len(panel.tasks) > first["random"]["summary"]["won"]


def test_the_shuffled_copies_are_in_another_order(places, tmp_path):
    shuffled_copy("search", sample("search").tasks, tmp_path)
    shuffled_copy("webshop", (), tmp_path)
    rows = [json.loads(line)["contents"] for line in (tmp_path / "corpus.jsonl").open()]
    assert rows != [row["contents"] for row in CORPUS] and sorted(rows) == sorted(row["contents"] for row in CORPUS)
    items = [row["asin"] for row in json.loads((tmp_path / "items_shuffle_1000.json").read_text())]
    assert items != list(published()) and sorted(items) == sorted(published())


def test_ties_of_bm25_do_not_hang_on_the_order_of_the_corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("SEEDBED_CACHE", str(tmp_path / "cache"))
    found = set()
    for order in range(4):
        file = tmp_path / f"{order}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in random.Random(order).sample(CORPUS, len(CORPUS))))
        (passages,) = BM25Retriever(file).search(["river"], 3)
        assert len({p.score for p in passages}) == 1  # of five that are equally good
        found.add(tuple(p.contents for p in passages))
    assert len(found) == 1


def test_another_seed_plays_otherwise_by_chance_and_alike_by_rule(places):
    few = replace(sample("webshop"), tasks=sample("webshop").tasks[:3])
    hashes = {(p, seed): play(p, "webshop", 256, few, seed)["transcripts_hash"] for p in POLICIES for seed in (0, 1)}
    assert hashes["random", 0] != hashes["random", 1]
    assert hashes["scripted", 0] == hashes["scripted", 1]


# --- reading a prompt -------------------------------------------------------------------------------------------------

TEXT = st.text("abc XY.,:'[]-\n$<>", max_size=30).map(str.strip)
LINE = TEXT.map(lambda text: " ".join(text.split()))


@settings(max_examples=60, deadline=None)
@given(
    goal=LINE.filter(bool),
    observation=TEXT,
    actions=st.lists(st.text("abc []:.", min_size=1), max_size=4),
    history=st.lists(st.tuples(TEXT, LINE), max_size=4),
    keep=st.integers(0, 5),
    think=st.booleans(),
)
@pytest.mark.parametrize("wording", [AlfWorld.wording, replace(WebShop.wording, task_first=True)])
def test_reading_a_prompt_is_the_inverse_of_writing_it(wording, goal, observation, actions, history, keep, think):
    prompt = windowed(
        wording,
        goal=goal,
        observation=observation,
        admissible=actions,
        think=think,
        history=history,
        turn=len(history),
        keep=keep,
    )
    shown = read(f"<|user|>{prompt.text}<|end|><|assistant|>", wording)
    kept = tuple(history[-keep:] if keep else [])
    assert shown == Shown(goal, len(history), observation, tuple(actions), kept)


def test_reading_a_prompt_of_steps():
    steps = [("", "<search>one</search>"), ("\n<information>Doc 1: a\nb</information>\n", "<search>two</search>")]
    newest = "\n<information>Doc 1: c\n\nd</information>\n"
    how = {"goal": "Who?", "admissible": (), "think": True}
    first = windowed(SearchQA.wording, observation="", history=[], turn=0, keep=4, **how)
    assert read(first.text, SearchQA.wording) == Shown("Who?", 0, "", (), ())
    later = windowed(SearchQA.wording, observation=newest, history=steps, turn=2, keep=4, **how)
    told = ("<search>one</search> <information>Doc 1: a\nb</information>", "<search>two</search>")
    assert read(later.text, SearchQA.wording) == Shown("Who?", 2, newest, (), tuple(("", step) for step in told))
    with pytest.raises(ValueError, match="no windowed prompt|not a windowed prompt"):
        read("Who?", SearchQA.wording)


# --- what the players make of it --------------------------------------------------------------------------------------


def test_a_goal_of_webshop_is_read_into_words_options_and_price():
    goal = "Find me wall art with solid wood for living room with color: red, and size: 8x10 inch"
    wanted = Wanted.of(goal + ", and price lower than 60.00 dollars")
    assert wanted.options == ("red", "8x10 inch") and wanted.limit == 60
    assert wanted.words == goal
    assert wanted.on("'Back to Search' [SEP] 'size' [SEP] '8x10 Inch' [SEP] 'Buy Now'") == ("8x10 inch",)
    assert Wanted.of("i want a lamp").options == () and Wanted.of("i want a lamp").limit == float("inf")


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("In what year was the tower of Foo completed?", "1902"),
        ("When was the tower of Foo completed?", "3 May 1902"),
        ("How many steps has the tower of Foo?", "212"),
        ("Who built the tower of Foo?", "Ada Bar"),
        ("Is the tower of Foo a building?", "yes"),
        ("Which is older, Foo or Baz?", "Foo"),
    ],
)
def test_the_first_thing_of_the_asked_sort_is_the_answer(question, said):
    text = "It was built by Ada Bar. The tower of Foo was completed on 3 May 1902. The tower has 212 steps."
    assert answer(question, [("Foo", text)]) == said


def test_without_a_passage_there_is_still_an_answer():
    assert answer("Who built it?", []) == "unknown"


# --- environments of one's own ----------------------------------------------------------------------------------------


class Doors(Environment):
    """Three doors, one prize; ``listed`` says whether the doors are told."""

    wording = Wording(role="You choose a door.")

    def __init__(self, listed: bool = True) -> None:
        self.listed = listed

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/{n}", "doors", split, "door") for n in range(120)]

    def open(self, task: Task) -> Game:
        listed = self.listed

        class Door(Game):
            goal = "find the prize"

            def start(self) -> Observation:
                return Observation("Three doors.", ("left", "middle", "right") if listed else ())

            def step(self, action: str) -> Observation:
                won = action == "middle"
                return Observation("Open.", reward=float(won), done=True, won=won)

        return Door()


BY_CHANCE = load_config(None, ["model.path=random"])


def doors() -> Panel:
    return Panel("doors", "doors", tuple(Doors().tasks("test")), "")


def test_random_draws_evenly_from_what_any_environment_lists():
    results = [played(BY_CHANCE, Doors(), doors(), at_once) for at_once in (120, 11)]
    assert results[0] == results[1]
    low, high = (results[0]["summary"]["micro"][side] for side in ("low", "high"))
    assert low < 1 / 3 < high and results[0]["summary"]["valid_action_rate"] == 1.0


def test_every_listed_action_is_as_likely():
    actor = load_actor(BY_CHANCE, Doors())
    shown = windowed(
        Doors.wording,
        goal="g",
        observation="o",
        admissible=("a", "b", "c"),
        think=True,
        history=[],
        turn=0,
        keep=0,
    )
    ids = actor.renderer.open([Message("user", shown.text)]).ids_T
    requests = [Request(ids, random.Random(n).getrandbits(96), 0) for n in range(600)]
    said = Counter(actor.renderer.content(c.ids_T) for c in actor.engine.generate(requests, Sampling(0.0, 1000)))
    assert len(said) == 3 and min(said.values()) > 150  # 200 each expected; 150 is 4.3 standard errors below


def test_what_cannot_be_played_is_one_sentence():
    with pytest.raises(UserError, match="'mine:Doors' has no scripted player .*alfworld, ezpoints, search"):
        player("scripted", Doors(), "mine:Doors")
    with pytest.raises(UserError, match="lists no legal actions"):
        played(BY_CHANCE, Doors(listed=False), doors())


def test_players_are_not_stopped_by_limits_of_tokens_and_the_result_says_so():
    settings = load_config("tiny").rollout
    assert (settings.layout, settings.list_admissible, settings.max_new_tokens) == ("transcript", False, 16)
    lifted = player_settings("scripted", settings)
    assert (lifted.layout, lifted.list_admissible, lifted.history) == ("windowed", True, settings.max_turns)
    assert min(lifted.max_prompt_tokens, lifted.max_new_tokens) == 1_000_000
    assert player_settings("random", settings).history == settings.history


# --- the order of the products ----------------------------------------------------------------------------------------


def test_products_stand_in_their_published_order():
    records = [{"asin": asin} for asin in published()]
    mixed = random.Random(0).sample(records, len(records))
    assert mixed != records and in_published_order(mixed, Path("f")) == records
    own = [{"asin": "X2"}, {"asin": "X1"}]
    assert in_published_order(own, Path("f")) == own


@pytest.mark.parametrize("change", ["one is missing", "one is another", "one is there twice", "one is added"])
def test_a_catalogue_that_is_only_in_part_the_published_one_is_refused(change):
    records = [{"asin": asin} for asin in published()]
    match change:
        case "one is missing":
            records = records[1:]
        case "one is another":
            records[3] = {"asin": "X"}
        case "one is there twice":
            records[3] = records[4]
        case _:
            records.append({"asin": "X"})
    with pytest.raises(UserError, match=r"items\.json holds \d+ of the 1,000 published products"):
        in_published_order(records, Path("items.json"))


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_takes_the_two_words_in_place_of_a_checkpoint(tmp_path):
    """On generated household games, which need no data, cut after two turns."""
    out = {}
    for policy, at_once in (("scripted", 50), ("random", 256)):
        file = tmp_path / f"{policy}-{at_once}.json"
        words = ["eval", policy, "-c", "tiny", "--attempts", "1", "--at-once", str(at_once), "--out", str(file)]
        result = CliRunner().invoke(app, [*words, "rollout.max_turns=2"], catch_exceptions=False)
        assert result.exit_code == 0 and policy in result.stdout
        out[policy, at_once] = json.loads(file.read_text())
    scripted, chance = out["scripted", 50], out["random", 256]
    assert scripted["transcripts_hash"] != chance["transcripts_hash"]
    assert (scripted["policy"], chance["policy"]) == ("scripted", "random")
    assert scripted["rollout"]["max_prompt_tokens"] == 1_000_000
    assert scripted["summary"]["mean_turns"] == 2.0


def test_a_temperature_means_nothing_to_a_player():
    with pytest.raises(UserError, match="means nothing to the policy 'random'"):
        CliRunner().invoke(app, ["eval", "random", "-c", "tiny", "--temperature", "1"], catch_exceptions=False)


def test_a_panel_of_another_environment_is_refused_before_anything_is_played():
    from seedbed.commands.evaluate import eval_

    with pytest.raises(UserError, match="panel 'household-120' is of environment 'alfworld', not of 'sokoban'"):
        eval_("random", config=["sokoban"], panel="household-120")

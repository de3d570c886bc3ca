"""Sokoban: levels as the official generator makes them, moves and rewards by hand, whole episodes, images."""

from __future__ import annotations

import re
from collections import deque
from hashlib import sha256
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from seedbed.commands.env import app
from seedbed.config import RolloutSettings
from seedbed.engines.scripted import ScriptedEngine
from seedbed.envs import panels
from seedbed.envs.base import make_environment
from seedbed.envs.sokoban.env import Sokoban
from seedbed.envs.sokoban.game import SYMBOLS, SokobanGame, cells
from seedbed.envs.sokoban.levels import Level, make_level
from seedbed.envs.sokoban.picture import tile
from seedbed.envs.sokoban.projection import project_direction
from seedbed.render import Renderer
from seedbed.rollout import collect_groups
from seedbed.types import StopReason, Task, Trajectory, UserError

BYTES = RolloutSettings(max_prompt_tokens=20_000, max_new_tokens=200, max_turns=15, history=2)  # a token a byte
OPEN = frozenset((row, column) for row in range(1, 5) for column in range(1, 4))  # 4 x 3 cells of floor
LEVEL = Level(OPEN, target=(3, 3), box=(2, 2), player=(1, 1))
WAY = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
TURNS = 15  #: the paper's limit


def board(state: Level) -> str:
    return "\n".join(" ".join(row) for row in cells(state))


def plan(text: str) -> list[str]:
    """A shortest solution of a board as text, found on the symbols alone: breadth first over player and box."""
    rows = [line.split() for line in text.splitlines()]
    place = {mark: (r, c) for r, row in enumerate(rows) for c, mark in enumerate(row)}
    player, target = place.get("P") or place["S"], place.get("O") or place["S"]
    queue, met = deque([(player, place["X"], [])]), set()
    while queue:
        player, box, path = queue.popleft()
        if box == target:
            return path
        if (player, box) in met:
            continue
        met.add((player, box))
        for name, (down, right) in WAY.items():
            new, pushed = (player[0] + down, player[1] + right), box
            if new == box:
                pushed = (box[0] + down, box[1] + right)
            if "#" not in (rows[new[0]][new[1]], rows[pushed[0]][pushed[1]]):
                queue.append((new, pushed, [*path, name]))
    raise AssertionError(f"no solution:\n{text}")


def play(renderer: Renderer, reply, tasks, environment=None, **settings) -> list[Trajectory]:
    how = BYTES.model_copy(update=settings)
    engine, environment = ScriptedEngine(renderer, reply), environment or make_environment("sokoban")
    groups = collect_groups(engine, environment, renderer, how, tasks, attempts=1, seed=0)
    return [group.attempts_G[0] for group in groups]


def newest_board(prompt: str) -> str:
    return re.findall(r"(?:^[#_OX√PS](?: [#_OX√PS]){5}$\n?){6}", prompt, re.MULTILINE)[-1].strip()


def solver(prompt: str) -> str:
    return f"<think>I plan.</think><action>{plan(newest_board(prompt))[0]}</action>"


def test_known_levels_are_those_of_the_official_generator():
    """Written down from runs of the official code (2cf2fad, search depth 30): one board, and the digest of 300."""
    assert board(make_level(17)) == "\n".join(
        ["# # # # # #", "# _ _ _ # #", "# _ _ X _ #", "# O _ _ P #", "# _ _ _ _ #", "# # # # # #"]
    )
    seeds = [*range(150), *range(65_536, 65_536 + 150)]
    digest = sha256("\n\n".join(board(make_level(seed)) for seed in seeds).encode()).hexdigest()
    assert digest == "739cc0126ea5feaefb61f4a5a6f17f4b6e8aac8d33f93ade2fc5d4b5d1c79c3d"


@pytest.mark.parametrize("first", [0, 65_536])
def test_300_levels_are_sound_and_solvable_within_the_papers_turns(first: int):
    for seed in range(first, first + 150):
        level = make_level(seed)
        assert {level.target, level.box, level.player} <= level.floor
        assert len({level.target, level.box}) == len({level.player, level.box}) == 2
        assert all(1 <= row <= 4 and 1 <= column <= 4 for row, column in level.floor)
        assert 1 <= len(plan(board(level))) <= TURNS


def test_a_seed_where_four_rooms_do_not_do_has_a_level_too():
    """3248, 3701, 7141, 7902: the official code gives up there and takes a seed from a salted hash."""
    for seed in (3248, 3701, 7141, 7902):
        assert make_level(seed) == make_level(seed) and plan(board(make_level(seed)))


def test_a_level_depends_on_its_seed_alone():
    order = [*range(60), *range(65_536, 65_566)]
    straight = {seed: make_level(seed) for seed in order}
    Random(1).shuffle(order)
    np.random.seed(5)
    assert {seed: make_level(seed) for seed in order} == straight
    assert len(set(straight.values())) > 60  # not all: small boards repeat


def test_moves_and_rewards_by_hand():
    game = SokobanGame(LEVEL, Sokoban().show)
    assert game.start().text == "\n".join(
        ["# # # # # #", "# P _ _ # #", "# _ X _ # #", "# _ _ O # #", "# _ _ _ # #", "# # # # # #"]
    )
    for action, player, box in [
        ("up", (1, 1), (2, 2)),  # a wall
        ("still", (1, 1), (2, 2)),
        ("jump", (1, 1), (2, 2)),
        ("right", (1, 2), (2, 2)),
        ("down", (2, 2), (3, 2)),  # pushes
        ("down", (3, 2), (4, 2)),
        ("down", (3, 2), (4, 2)),  # the box is at the wall
        ("right", (3, 3), (4, 2)),  # on the target
    ]:
        seen = game.step(action)
        assert (game.state.player, game.state.box) == (player, box), action
        assert (seen.reward, seen.done, seen.won) == (-0.1, False, False)
        assert seen.admissible == ("up", "down", "left", "right")
    assert seen.text.splitlines()[3:5] == ["# _ _ S # #", "# _ X _ # #"]
    assert game.step("up").text.splitlines()[3] == "# _ _ O # #"  # it was only covered


def test_a_win_by_hand():
    game = SokobanGame(LEVEL, Sokoban().show)
    game.start()
    seen = [game.step(action) for action in ("right", "down", "left", "down", "right")]
    assert [s.reward for s in seen] == [-0.1] * 4 + [pytest.approx(-0.1 + 1 + 10)]
    assert [s.done for s in seen] == [s.won for s in seen] == [False] * 4 + [True]
    assert seen[-1].text.splitlines()[3] == "# _ P √ # #"


@pytest.mark.parametrize("layout", ["windowed", "transcript"])
def test_a_planning_policy_wins_every_level_in_the_fewest_moves(renderer: Renderer, layout: str):
    tasks = make_environment("sokoban").tasks("train")[:25]
    for trajectory in play(renderer, solver, tasks, layout=layout):
        shortest = len(plan(newest_board(trajectory.turns_K[0].prompt.text)))
        assert trajectory.stop is StopReason.WON and len(trajectory.turns_K) == shortest
        assert trajectory.reward == pytest.approx(11 - 0.1 * shortest)
        assert trajectory.invalid_turns == 0


def test_the_prompt_explains_the_board_and_lists_the_moves(renderer: Renderer):
    (trajectory,) = play(renderer, lambda _: "<think>no</think><action>still</action>", [task("train/17")])
    prompt = trajectory.turns_K[1].prompt.text
    assert all(f"{symbol} is" in prompt for symbol in SYMBOLS)
    assert "['up', 'down', 'left', 'right']" in prompt and "Your task is to: push the box onto the target" in prompt
    assert f"Observation 1: '{board(make_level(17))}', Action 1: 'still'" in prompt
    assert trajectory.stop is StopReason.STEP_CAP and len(trajectory.turns_K) == 15 and trajectory.invalid_turns == 0
    assert trajectory.reward == pytest.approx(-1.5)


def test_babble_is_invalid_and_costs_but_is_never_a_fault(renderer: Renderer):
    for reply in ("I would rather not", "<action>fly</action>", "<think>\x01</think><action>\x02</action>"):
        (trajectory,) = play(renderer, lambda _, reply=reply: reply, [task("validation/70000")], max_turns=4)
        assert trajectory.stop is StopReason.STEP_CAP and trajectory.invalid_turns == 4
        assert trajectory.reward == pytest.approx(-0.4)


@given(st.text(max_size=60) | st.text("<>/action think up\n", max_size=60), st.booleans())
def test_any_response_is_an_action_and_any_action_is_played(response: str, think: bool):
    game = SokobanGame(LEVEL, Sokoban().show)
    game.start()
    action = Sokoban().project(response, think)
    assert action.text in ("up", "down", "left", "right", "still")
    assert not game.step(action.text).done and game.step(response).reward == -0.1


@pytest.mark.parametrize(
    ("written", "text", "valid", "strict"),
    [
        ("<think>x</think><action>UP</action>", "up", True, True),
        ("<think>x</think><action>go\nright!</action>", "right", True, True),
        ("<think>向上走</think><action>up</action>", "up", True, True),
        ("<think>x</think><action>left, left</action>", "left", True, True),
        ("<think>x</think><action>right then down</action>", "right", True, False),
        ("<think>x</think><action>up</action><action>down</action>", "up", True, False),
        ("<think><action>up</action></think><action>down</action>", "down", True, True),
        ("<action>down</action>", "down", False, False),
        ("<think>x</think><action>download</action>", "still", False, False),
        ("<think>x</think> move up", "still", False, False),
    ],
)
def test_a_direction_is_a_whole_word_in_the_block(written: str, text: str, valid: bool, strict: bool):
    got = project_direction(written, True, strict_format=False)
    assert (got.text, got.valid) == (text, valid)
    got = project_direction(written, True)
    assert (got.text, got.valid) == (text, strict)


def test_reasoning_is_required_only_where_it_is_asked_for():
    bare = "<action>up</action>"
    assert Sokoban().project(bare, False).valid and not Sokoban().project(bare, True).valid
    assert Sokoban(require_think=False).project(bare, True).valid


def task(name: str) -> Task:
    return Task(f"sokoban/{name}", "sokoban", name.partition("/")[0], "one-box")


def test_splits_are_the_official_seeds():
    environment = Sokoban()
    train, validation = environment.tasks("train"), environment.tasks("validation")
    assert (train[0].id, train[-1].id, len(train)) == ("sokoban/train/0", "sokoban/train/65534", 65_535)
    assert (validation[0].id, len(validation)) == ("sokoban/validation/65536", 65_536)
    assert [t.id for t in train[3:9:3]] == ["sokoban/train/3", "sokoban/train/6"]
    assert not {t.id.rpartition("/")[2] for t in train} & {t.id.rpartition("/")[2] for t in validation}
    with pytest.raises(UserError, match="no split 'test'; use one of train, validation"):
        environment.tasks("test")
    for wrong in ("train/65535", "train/65536", "validation/65535", "test/3", "train/x", "train"):
        with pytest.raises(UserError, match="has no task"):
            environment.open(task(wrong))


@pytest.mark.parametrize("name", ["sokoban", "ezpoints"])
@pytest.mark.parametrize(
    "wrong",
    [
        *("train/3/x", "train/3/", "train//3", "/train/3", "train/03", "train/00", "train/+3", "train/-3", "train/3 "),
        *(
            "train/3\n",
            "train/٣",
            "train/³",
            "train/1_0",
            "train/",
            "Train/3",
            "validation/٦٥٥٣٦",
            "train/" + "9" * 5000,
        ),
    ],
)
def test_a_task_is_its_exact_id_and_nothing_like_it(name: str, wrong: str):
    environment = make_environment(name)
    for found in (f"{name}/{wrong}", wrong, "other/train/3", f"{name}/train/3/{wrong}"):
        with pytest.raises(UserError, match=rf"environment '{name}' has no task .*; its tasks are train/0 to") as said:
            environment.seed(Task(found, name, "train", ""))
        assert len(str(said.value)) < 300 and "\n" not in str(said.value)
    assert environment.seed(Task(f"{name}/train/0", name, "train", "")) == 0
    assert environment.seed(Task(f"{name}/validation/131071", name, "validation", "")) == 131_071


@pytest.mark.parametrize("name", ["sokoban-128", "ezpoints-128"])
def test_panels_are_drawn_from_the_validation_seeds(name: str):
    panel = panels.load_panel(name)
    assert (panels.DIRECTORY / f"{name}.json").read_text() == panels.build_panel(name)
    assert len({t.id for t in panel.tasks}) == 128 and {t.split for t in panel.tasks} == {"validation"}


def test_all_levels_of_the_panel_can_be_won_in_time():
    lengths = [len(plan(board(make_level(int(t.id.split("/")[2]))))) for t in panels.load_panel("sokoban-128").tasks]
    assert max(lengths) <= TURNS and len(set(lengths)) > 5


def test_the_image_shows_the_board():
    """Every tile of it is the tile of the symbol that the text has there; no two tiles look alike."""
    assert len({tile(symbol).tobytes() for symbol in SYMBOLS}) == len(SYMBOLS) == 7
    by_look = {tile(symbol).tobytes(): symbol for symbol in SYMBOLS}
    game = SokobanGame(LEVEL, make_environment("sokoban", observation="both").show)
    shown = [game.start(), *(game.step(action) for action in ("right", "down", "left", "down", "right"))]
    over = SokobanGame(Level(OPEN, (1, 2), (3, 3), (1, 1)), make_environment("sokoban", observation="both").show)
    for seen in [*shown, over.step("right")]:
        assert seen.image.shape == (96, 96, 3) and seen.image.dtype == np.uint8
        tiles = seen.image.reshape(6, 16, 6, 16, 3).swapaxes(1, 2)
        assert [[by_look[t.tobytes()] for t in row] for row in tiles] == [row.split() for row in seen.text.splitlines()]


def test_modes_of_observation():
    text, image, both = (make_environment("sokoban", observation=m).open(task("train/5")).start() for m in MODES)
    assert text.image is None and image.text == "" and both.text == text.text
    np.testing.assert_array_equal(image.image, both.image)
    assert "orange crate" not in Sokoban("text").wording.role and "# is wall" not in Sokoban("image").wording.role
    with pytest.raises(UserError, match="env.options.observation='sound' is unknown: use one of text, image, both"):
        make_environment("sokoban", observation="sound")


MODES = ("text", "image", "both")


def test_a_text_engine_refuses_images_before_it_computes(renderer: Renderer):
    def never(_: str) -> str:
        raise AssertionError("asked")

    with pytest.raises(UserError, match="images only"):
        play(renderer, never, [task("train/5")], make_environment("sokoban", observation="image"))
    seen = play(renderer, solver, [task("train/5")], make_environment("sokoban", observation="both"))
    assert seen[0].stop is StopReason.WON


def test_a_person_can_see_and_play(tmp_path):
    pillow = pytest.importorskip("PIL.Image", reason="the extra [visual] is not installed")
    out = tmp_path / "level.png"
    result = CliRunner().invoke(app, ["image", "sokoban", "sokoban/train/17", "--out", str(out)])
    assert (result.exit_code, result.stdout) == (0, f"{out}: 96 x 96 pixels\n")
    expected = make_environment("sokoban", observation="image").open(task("train/17")).start().image
    np.testing.assert_array_equal(np.asarray(pillow.open(out)), expected)
    moves = plan(board(make_level(17)))
    result = CliRunner().invoke(app, ["play", "sokoban", "--task", "sokoban/train/17"], input="\n".join(moves) + "\n")
    assert "Your task is to: push the box onto the target" in result.stdout
    assert result.stdout.endswith(f"won after {len(moves)} step{'s' * (len(moves) != 1)}\n")
    failed = CliRunner().invoke(app, ["image", "sokoban", "sokoban/train/17", "--out", str(tmp_path / "no" / "x.png")])
    assert isinstance(failed.exception, UserError) and "cannot be written" in str(failed.exception)

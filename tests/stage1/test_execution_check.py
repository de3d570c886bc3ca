"""The execution check finds a skill that helps, one that does nothing, and pairs them by task."""

from __future__ import annotations

import pytest

from seedbed.config import RolloutSettings
from seedbed.engines.scripted import ScriptedEngine
from seedbed.envs.base import Environment, Game
from seedbed.prompts.base import Wording
from seedbed.skills.execute import draw_skills, execution_check
from seedbed.types import Observation, Skill, StopReason, Task, Trajectory


class Door(Environment):
    """Won by the word of the task."""

    name = "door"
    wording = Wording("You open doors.")

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"door-{i}", "door", split, "door") for i in range(6)]

    def open(self, task: Task) -> Game:
        return DoorGame()


class DoorGame(Game):
    goal = "open the door"

    def start(self) -> Observation:
        return Observation("a door")

    def step(self, action: str) -> Observation:
        return Observation("", done=True, won=action == "sesame")


def played(task: Task, won: bool) -> Trajectory:
    stop = StopReason.WON if won else StopReason.LOST
    return Trajectory(task, 0, "open the door", (), stop, float(won), "transcript", 0, 0)


@pytest.fixture
def made():
    tasks = Door().tasks("train")
    trajectories = [played(task, i < 3) for i, task in enumerate(tasks)]
    texts = ["say sesame"] * 2 + ["say nothing"] * 4
    kinds = ["workflow"] * 3 + ["avoidance"] * 3
    skills = [Skill(t.id, k, "ok", text) for t, k, text in zip(trajectories, kinds, texts, strict=True)]
    return trajectories, {s.trajectory: s for s in skills}


def test_gain_by_skill_kind_and_in_all(renderer, made):
    trajectories, skills = made
    engine = ScriptedEngine(
        renderer, lambda prompt, *_: f"<action>{'sesame' if 'sesame' in prompt else 'knock'}</action>"
    )
    settings = RolloutSettings(layout="transcript", max_turns=2, max_prompt_tokens=2000, think=False)
    drawn = draw_skills(trajectories, skills, 6, seed=0)
    seen = []
    report = execution_check(
        engine, Door(), renderer, settings, drawn, 3, seed=0, progress=lambda done, total: seen.append((done, total))
    )
    gains = {line["task"]: (line["without"], line["with"], line["of"]) for line in report["skills"]}
    assert gains == {f"door-{i}": (0, 3 if i < 2 else 0, 3) for i in range(6)}
    assert report["gain"]["all"]["value"] == pytest.approx(2 / 6)
    assert report["gain"]["workflow"]["value"] == pytest.approx(2 / 3)
    assert report["gain"]["avoidance"]["value"] == 0
    assert seen[-1] == (36, 36)


def test_the_draw_is_of_different_tasks_and_depends_on_the_seed_alone(made):
    trajectories, skills = made
    again = [Trajectory(t.task, 1, t.goal, (), t.stop, 0.0, t.layout, 0, 0) for t in trajectories]
    more = skills | {t.id: Skill(t.id, "workflow", "ok", "x") for t in again}
    drawn = draw_skills([*trajectories, *again], more, 4, seed=1)
    assert len({task.id for task, _ in drawn}) == len(drawn) == 4
    assert drawn == draw_skills([*again[::-1], *trajectories[::-1]], more, 4, seed=1)
    broken = {key: Skill(key, "workflow", "empty") for key in skills}
    assert draw_skills(trajectories, broken, 4, seed=0) == []

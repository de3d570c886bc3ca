"""`--keep` stores the very episodes that a score was counted from, as ordinary parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small import Made

from seedbed.config import RolloutSettings
from seedbed.engines.scripted import ScriptedEngine
from seedbed.envs.base import make_environment
from seedbed.envs.panels import Panel
from seedbed.evaluate.run import episode_line, evaluate, keeper, transcripts_hash
from seedbed.render import Renderer
from seedbed.track.store import parts, read_part
from seedbed.types import UserError

SETTINGS = RolloutSettings(max_prompt_tokens=4096, max_new_tokens=200, max_turns=4, temperature=0.0)


def test_what_is_kept_is_what_was_counted_in_portions(renderer: Renderer, tmp_path: Path, root: Path) -> None:
    environment = make_environment("counter_env:Counter")
    tasks = tuple(environment.tasks("train"))
    engine = ScriptedEngine(renderer, lambda _: "<think></think><action>add 2</action>")
    result = evaluate(
        engine,
        environment,
        renderer,
        SETTINGS,
        Panel("all", "counter", tasks, "-"),
        attempts=2,
        temperature=0.0,
        seed=0,
        at_once=4,
        keep=keeper(tmp_path / "kept"),
    )
    names = parts(tmp_path / "kept")
    kept = [t for name in names for t, _ in read_part(tmp_path / "kept", name)]
    assert names == [f"e{i:04d}" for i in range(len(tasks) // 2)]
    assert [episode_line(t) for t in kept] == result["episodes"]
    assert transcripts_hash(kept) == result["transcripts_hash"]
    for trajectory in kept:
        for turn in trajectory.turns_K:
            assert np.array_equal(turn.prompt_ids_T, renderer.open([_message(turn.prompt.text)]).ids_T)
    with pytest.raises(UserError, match="holds episodes already"):
        keeper(tmp_path / "kept")


def test_the_deployed_process_kept_its_whole_panel(mechanism: Made) -> None:
    kept = mechanism.folder / "eval" / "trajectories"
    played = [t for name in parts(kept) for t, _ in read_part(kept, name)]
    assert len({t.task.id for t in played}) == len(played) == 120
    assert not any(dict(turn.prompt.slots).get("skill") for t in played for turn in t.turns_K)


def _message(text: str):
    from seedbed.types import Message

    return Message("user", text)

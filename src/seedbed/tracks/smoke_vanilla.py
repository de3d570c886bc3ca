"""Step 2: is an episode a record that can be had again? The base policy plays, and one of its episodes is re-run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from seedbed.rollout import episode_seed
from seedbed.track.run import Run
from seedbed.tracks import chain
from seedbed.tracks.again import replay, unlike
from seedbed.tracks.paged import PagedStep, require, table
from seedbed.tracks.smoke_pin import as_pinned
from seedbed.train.collect import read_collected
from seedbed.train.model import folder_hashes, resolve


class Vanilla(PagedStep):
    name = "vanilla"
    title = "The vanilla policy plays, and an episode played again is the same record"
    done_when = (
        "every stored episode has observations, actions, rewards and a terminal outcome that agree, and one of them, "
        "played again from its task, attempt and seed, is the same to the last token"
    )
    needs = ("pin",)
    page = "vanilla.md"
    makes = ("collect",)
    leaves = ("collect/skills.jsonl", "collect/annotate.json")

    def make(self, folder: Path) -> None:
        chain.play(folder, self.config())

    def shown(self, folder: Path) -> tuple[str, dict[str, Any]]:
        run = Run.open(folder / "collect", "collect")
        config, played = run.config, read_collected(run)
        as_pinned(folder, config, "collect/")
        require(run.manifest["model"] == folder_hashes(resolve("tiny")), "collect/ was not played by the tiny model")
        wanted = config.collect.tasks * config.collect.attempts
        require(len(played) == wanted, f"collect/ holds {len(played)} episodes, not {wanted}")
        for trajectory in played:
            chain.complete(trajectory)
            seed = episode_seed(config.seed, trajectory.task.id, trajectory.attempt)
            require(trajectory.seed == seed, f"{trajectory.id} was not played with the seed of its task and attempt")
            require((trajectory.reward > 0) == trajectory.won, f"{trajectory.id} has a return against its outcome")
        chosen = max((t for t in played if not t.faulty), key=lambda t: (t.won, len(t.turns_K)))
        other = unlike(chosen, replay("tiny", config, chosen, config.seed, config.collect.attempts))
        require(not other, f"{chosen.id} played again is another record ({other})")
        stops = Counter(t.stop.value for t in played)
        rows = [
            (
                k,
                dict(turn.prompt.slots)["observation"],
                turn.action.text,
                len(turn.response_ids_T),
                f"{turn.reward:g}",
                turn.observation,
            )
            for k, turn in enumerate(chosen.turns_K)
        ]
        body = "\n\n".join(
            [
                f"{len(played)} episodes, ended by "
                + ", ".join(f"{stop} {count}" for stop, count in sorted(stops.items()))
                + "; every one has all its parts.",
                f"Episode `{chosen.id}` with seed {chosen.seed} was played again by the same weights: all "
                f"{chosen.sampled_tokens} sampled tokens, {len(chosen.turns_K)} actions, answers and rewards are the "
                f"same. Outcome: {chosen.stop.value}, return {chosen.reward:g}.",
                table(("turn", "observation", "action", "tokens", "reward", "answer"), rows),
            ]
        )
        evidence = {
            "episodes": len(played),
            "stops": dict(stops),
            "replayed": chosen.id,
            "tokens_alike": chosen.sampled_tokens,
            "outcome": chosen.stop.value,
        }
        return body, evidence

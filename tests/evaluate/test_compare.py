"""``seedbed compare``: two runs of the tiny model against an independent computation, refusals, T14."""

from __future__ import annotations

import copy
import json
from hashlib import sha256
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import typer
from toy import Scripted, Toy, renderer
from typer.testing import CliRunner

from seedbed.commands.compare import compare
from seedbed.config import RolloutSettings, load_config
from seedbed.envs import panels
from seedbed.envs.panels import Panel
from seedbed.evaluate.run import evaluate
from seedbed.track.run import Run
from seedbed.train.rl import Trainer
from seedbed.types import UserError
from seedbed.view.compared import read, trained

app = typer.Typer()
app.command()(compare)


def run(*words: object) -> str:
    """What the command prints, unwrapped. Raises what it raises."""
    found = CliRunner().invoke(app, [str(w) for w in words], env={"COLUMNS": "200"}, catch_exceptions=False)
    return " ".join(found.output.split())


def refused(*words: object) -> str:
    with pytest.raises(UserError) as error:
        run(*words)
    assert "\n" not in str(error.value)
    return str(error.value)


# ---- two runs of the shipped model


def exact(kinds: list[list[int]], unit: float) -> tuple[np.ndarray, np.ndarray]:
    """The bootstrap distribution of the mean of the kinds' means, no draw taken: values, and their probabilities.

    ``kinds`` has the gaps of each kind's tasks in units of an attempt; all kinds are of one size, so that the sum of n
    independent draws from each is the n-fold convolution of its histogram.
    """
    total, reach = np.ones(1), 0
    for gaps in kinds:
        width = max(map(abs, gaps), default=0)
        histogram = np.bincount(np.array(gaps) + width, minlength=2 * width + 1) / len(gaps)
        for _ in gaps:
            total, reach = np.convolve(total, histogram), reach + width
    n = sum(map(len, kinds))
    return np.arange(-reach, reach + 1) * unit / n, total


def agrees(gap: dict, kinds: list[list[int]], unit: float) -> None:
    values, shares = exact(kinds, unit)
    assert shares.sum() == pytest.approx(1) and gap["value"] == pytest.approx((values * shares).sum())
    slack = 4 * (0.025 * 0.975 / 10_000) ** 0.5  # Monte-Carlo error of the command's 10,000 draws
    for end, share in ((gap["low"], 0.025), (gap["high"], 0.975)):
        assert shares[values < end - 1e-9].sum() <= share + slack
        assert shares[values <= end + 1e-9].sum() >= share - slack


def small_panel(folder: Path) -> None:
    """Four tasks of each of three kinds of the shipped panel."""
    content = json.loads((panels.DIRECTORY / "household-120.json").read_text())
    by_kind = {k: list(rows)[:4] for k, rows in groupby(sorted(content["tasks"]), key=lambda row: row[0])}
    tasks = [row for kind in ("cool", "look", "pick") for row in by_kind[kind]]
    ids = sha256("\n".join(task for _, task in tasks).encode()).hexdigest()
    (folder / "small.json").write_text(json.dumps({**content, "name": "small", "tasks": tasks, "sha256": ids}))


def test_two_runs_of_the_tiny_model(tmp_path, monkeypatch):
    small_panel(tmp_path)
    monkeypatch.setattr(panels, "DIRECTORY", tmp_path)
    for seed in (0, 1):
        words = ["algo=grpo", f"seed={seed}", "env.panel=small", "eval.every=1", "eval.attempts=2"]
        words += [
            "train.updates=1",
            "train.tasks=2",
            "train.attempts=2",
            "train.rehearsal_rows=0",
            "rollout.max_turns=10",
        ]
        Trainer(Run.new(tmp_path / f"g{seed}"), load_config("tiny", words)).train()
    files = [tmp_path / f"g{seed}" / "eval" / "u0001.json" for seed in (0, 1)]
    says = run(f"one={tmp_path / 'g0'}", f"other={tmp_path / 'g1'}", "--json", tmp_path / "c.json")

    wins: list[dict[str, int]] = []
    for file in files:
        episodes = json.loads(file.read_text())["episodes"]
        wins.append({t: sum(e["won"] for e in episodes if e["task"] == t) for t in {e["task"] for e in episodes}})
    kind = {task: k for k, task in json.loads((tmp_path / "small.json").read_text())["tasks"]}
    gaps = {task: wins[1][task] - wins[0][task] for task in wins[0]}
    assert len(gaps) == 12 and len(set(gaps.values())) > 1  # else there is no interval to speak of
    record = json.loads((tmp_path / "c.json").read_text())
    found = record["arms"][1]["difference"]
    agrees(found["micro"], [list(gaps.values())], 0.5)
    agrees(found["macro"], [[g for t, g in gaps.items() if kind[t] == k] for k in ("cool", "look", "pick")], 0.5)
    assert found["micro"]["covers"] == found["macro"]["covers"] == "tasks only"
    spent = record["arms"][0]["runs"][0]["budget"]
    assert (spent["updates"], spent["tasks"], spent["attempts"], spent["episodes"]) == (1, 2, 2, 4)
    assert "one: 1 update, 2 tasks an update, 2 attempts a task, 4 episodes" in says
    assert "12 tasks are too few" in says
    checkpoint = tmp_path / "g1" / "checkpoints" / "u0001"  # three names of one evaluation
    assert read(str(checkpoint)).result == read(str(files[1])).result == read(str(tmp_path / "g1")).result
    assert trained(str(checkpoint))["trained"]["budget"] == record["arms"][1]["runs"][0]["budget"]
    assert trained(str(tmp_path)) == trained("tiny") == {}


# ---- results of a scripted policy, quick to make

SETTINGS = RolloutSettings(layout="transcript", max_turns=3, max_new_tokens=64, think=False, temperature=1.0)
RENDERER = renderer()


def played(path: Path, *, solves: int = 7, seed: int = 1, **changes) -> Path:
    """A result file of the toy panel; at temperature 0 the first ``solves`` of ten tasks are won."""
    how = {"attempts": 1, "temperature": 0.0, "at_once": 256} | changes
    panel = Panel("toy-test-10", "toy", tuple(Toy().tasks("test")), "0123456789abcdef")
    result = evaluate(Scripted(RENDERER, solves), Toy(), RENDERER, SETTINGS, panel, seed=seed, **how)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    return path


def train_run(path: Path, *, updates: int = 2, tasks: int = 4, seed: int = 0, start: str = "aa") -> Path:
    """What a train run leaves that ``compare`` reads."""
    played(path / "eval" / f"u{updates:04d}.json", seed=seed, temperature=1.0)
    manifest = {"kind": "train", "seed": seed, "model": {"model.safetensors": start, "config.json": "same"}}
    (path / "manifest.json").write_text(json.dumps(manifest))
    (path / "config.resolved.yaml").write_text(f"train: {{tasks: {tasks}, attempts: 8}}\nenv: {{train_split: train}}\n")
    rows = [{"update": u + 1, "episodes": 8 * tasks, "tokens_sampled": 1000} for u in range(updates)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_t14_a_panel_scores_the_same_in_batches_of_any_size(tmp_path):
    """T14: ten tasks, a greedy policy that solves seven: 70 % with a standard error of 14.5 at batch sizes 1 to 16,
    each task once, panel by name (which carries the split) and hash beside the number."""
    sizes = (1, 3, 8, 10, 16)
    files = [played(tmp_path / f"{size}.json", at_once=size) for size in sizes]
    for file in files:
        assert sorted(e["task"] for e in json.loads(file.read_text())["episodes"]) == [f"task {i}" for i in range(10)]
    says = run(*(f"b{size}={file}" for size, file in zip(sizes, files, strict=True)))
    assert says.count("micro 70.0 ± 14.5 [39.7, 89.2]") == len(sizes)
    assert "panel toy-test-10 (10 tasks, hash 0123456789ab), temperature 0" in says
    assert says.count("micro: +0.0 points") == 4 and says.count("McNemar p") == 1
    assert "4 arms are compared with b1: were all alike" in says and "19% of cases" in says


def test_two_policies_in_words_json_and_markdown(tmp_path):
    """Seven and four of ten, nested: the three that differ are all on one side, p = 2 / 8."""
    few, many = played(tmp_path / "few.json", solves=4), played(tmp_path / "many.json", solves=7)
    says = run(f"few={few}", f"many={many}", "--markdown", tmp_path / "t.md", "--json", tmp_path / "c.json")
    test = json.loads((tmp_path / "c.json").read_text())["arms"][1]["mcnemar"]
    assert test == {"a_only": 3, "b_only": 0, "tasks": 10, "p": 0.25}
    assert "few, many: budget unknown." in says
    assert "many minus few, micro: +30.0 points" in says and "of tasks only; 10 paired tasks" in says
    assert "under about 43 points between two runs is noise if tasks are not paired" in says  # 1.96 sqrt(2 .24 / 10)
    assert "One training seed of few, many" in says
    table = (tmp_path / "t.md").read_text().splitlines()
    assert table[2] == "| arm | average | success | minus few | McNemar p |"
    assert table[6].startswith("| many | micro | 70.0 ± 14.5 [39.7, 89.2] | +30.0 [+") and table[6].endswith("0.250 |")
    assert [line.split("|")[2].strip() for line in table[4:8]] == ["micro", "macro"] * 2
    same = run(many, played(tmp_path / "again.json"))
    assert "played every episode alike, word for word" in same and "no difference is shown" in same


@pytest.mark.parametrize(
    ("key", "change", "named"),
    [
        ("panel", {"panel": "other-9", "panel_hash": "ffff"}, "panel is toy-test-10 with tasks 01234567"),
        ("temperature", {"temperature": 0.4}, "temperature is 0.0 (A) and 0.4 (B)"),
        ("prompts", {"template_hash": "beef"}, "template_hash is"),
        ("prompts", {"rollout": {"max_turns": 30, "temperature": 9}}, "rollout.max_turns is 3 (A) and 30 (B)"),
        ("environment", {"env_facts": {"engine": "x"}}, 'env_facts.engine is nothing (A) and "x" (B)'),
    ],
)
def test_unlike_evaluations_are_refused_by_name(tmp_path, key, change, named):
    a, b = played(tmp_path / "a.json"), tmp_path / "b.json"
    result = json.loads(a.read_text())
    other = copy.deepcopy(result)
    for name, value in change.items():
        other[name] = result[name] | value if isinstance(value, dict) else value
    b.write_text(json.dumps(other))
    message = refused(a, b)
    assert message.startswith(f"these runs differ in {key}: ") and message.endswith(f"accept it with --allow {key}")
    assert named in message.replace(str(a), "A").replace(str(b), "B")
    assert "--allow" in refused(a, b, "--allow", "budget")  # another key helps nothing
    assert f"Accepted as different, {key}: " in run(a, b, "--allow", key)


def test_unequal_budgets_are_refused(tmp_path):
    a, b = train_run(tmp_path / "a"), train_run(tmp_path / "b", updates=3, seed=1)
    message = refused(f"a={a}", f"b={b}").replace(str(tmp_path), "")
    assert "; updates is 2 (/a) and 3 (/b): compare" in message and "episodes is 64 (/a) and 96 (/b)" in message
    says = run(f"a={a}", f"b={b}", "--allow", "budget")
    assert "a: 2 updates, 4 tasks an update, 8 attempts a task, 64 episodes, 2,000 sampled tokens." in says
    assert "b: 3 updates" in says and "Accepted as different, budget" in says
    assert "tasks is 4" in refused(a, train_run(tmp_path / "c", tasks=5, seed=2))
    played(b / "eval" / "u0002.json", temperature=1.0)  # the same run, measured where both had spent the same
    assert "a, b: 2 updates" in run(f"a={a}", f"b={b}", "--update", 2)
    assert "update 7" in refused(a, b, "--update", 7)


def test_a_bare_result_has_no_known_budget_and_says_so(tmp_path):
    a, bare = train_run(tmp_path / "a"), played(tmp_path / "bare.json", temperature=1.0)
    says = run(f"a={a}", f"bare={bare}")
    assert "bare: budget unknown." in says and "a: 2 updates" in says
    assert "started from the same weights" not in says
    other = train_run(tmp_path / "b", seed=1, start="bb")
    assert "Not all runs started from the same weights" in run(a, other)
    checkpoint = other / "checkpoints" / "u0002"
    checkpoint.mkdir(parents=True)
    bare.write_text(json.dumps(json.loads(bare.read_text()) | trained(str(checkpoint))))
    assert read(str(bare)).budget == read(str(other)).budget and read(str(bare)).seed == 1


def test_seeds_of_an_arm(tmp_path):
    g = [train_run(tmp_path / f"g{s}", seed=s) for s in range(3)]
    s = [train_run(tmp_path / f"s{s}", seed=10 + s) for s in range(3)]
    arms = [f"{name}={','.join(map(str, runs))}" for name, runs in (("grpo", g), ("seed", s))]
    says = run(*arms, "--json", tmp_path / "c.json")
    record = json.loads((tmp_path / "c.json").read_text())
    for arm, runs in zip(record["arms"], (g, s), strict=True):
        rates = [np.mean([e["won"] for e in read(str(r)).result["episodes"]]) for r in runs]
        assert arm["micro"]["by_seed"] == pytest.approx(rates) and arm["micro"]["value"] == pytest.approx(
            np.mean(rates)
        )
        assert arm["micro"]["seed_deviation"] == pytest.approx(np.std(rates, ddof=1))
    assert record["arms"][1]["mcnemar"] is None
    assert "3 seeds macro" in says and "of tasks and training seeds" in says and "One training seed" not in says
    assert "One training seed of one" in run(arms[0], f"one={s[0]}")
    assert "Two training seeds of two" in run(arms[0], f"two={s[0]},{s[1]}")
    assert "same path" in refused(f"grpo={g[0]},{g[0]}", arms[1])
    manifest = g[1] / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 1', '"seed": 0'))
    assert "same training seed" in refused(*arms)
    copied = train_run(tmp_path / "copied", seed=0)
    assert "same transcripts" in refused(f"grpo={g[0]},{copied}", arms[1])


def test_what_is_no_evaluation_is_named(tmp_path):
    good = played(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("[]")
    assert "no result of an evaluation" in refused(good, tmp_path / "b.json")
    assert "does not exist" in refused(good, tmp_path / "none")
    assert "not a run directory" in refused(good, tmp_path)
    assert "two or more" in refused(good)
    assert "are called 'x'" in refused(f"x={good}", f"x={good}")
    assert "names no run" in refused(good, "x=")
    assert "are called" in refused(good, good)
    assert "none of panel, temperature" in refused(f"a={good}", f"b={good}", "--allow", "everything")
    empty = tmp_path / "run"
    empty.mkdir()
    (empty / "manifest.json").write_text('{"kind": "train"}')
    assert "seedbed eval" in refused(good, empty)

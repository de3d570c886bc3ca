"""The page holds the results with honest words, needs nothing from outside, and nothing in it can act."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from rundirs import EVIL, episode, evaluation, make_run

from seedbed.types import UserError
from seedbed.view.report import write_report
from seedbed.view.verdict import verdict

TAGS = set(
    "html head meta title style body header h1 h2 h3 nav a main section p div table caption thead tbody tr th td "
    "figure figcaption svg g line text circle polyline rect ul li details summary span article bdi blockquote br "
    "strong pre desc".split()
)


class Page(HTMLParser):
    """Tags with attributes, and the text by the innermost class."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def read(path) -> Page:
    return Page(path.read_text("utf-8"))


def assert_inert(path) -> None:
    page = read(path)
    assert {tag for tag, _ in page.tags} <= TAGS
    for _, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on")]
        assert "src" not in attrs and attrs.get("href", "#").startswith("#")
    policies = [a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    raw = path.read_text("utf-8")
    assert "url(" not in raw and "@import" not in raw and "http://" not in raw and "https://" not in raw


METRICS = [
    {
        "update": u,
        "success": 0.4 + 0.1 * u,
        "entropy": 0.3 - 0.05 * u,
        "gap_abs": 0.02,
        "seconds": {"rollout": 2.0, EVIL: 1.0},
        "faults": 1,
        "stops": {"won": 3, "fault": 1},
        "skill_statuses": {"ok": 3},
        "warnings": ["parse rate is low", EVIL],
        "eval": {"panel": "household-120", "temperature": 0.4, "micro": {"value": 0.5}},
    }
    for u in (1, 2)
]


def test_evil_text_everywhere_stays_text(tmp_path):
    bad = episode(0, goal=EVIL, text=EVIL, responses=("<script>alert(3)</script>", "\"' onmouseover=alert(4) \u202e"))
    run = make_run(tmp_path / "run", {1: [(bad, [0.5])], 2: [(bad, [-0.5])]}, skill_text=EVIL, metrics=METRICS)
    (run / "eval").mkdir()
    (run / "eval" / "a.json").write_text(json.dumps(evaluation([True, False], 0.4, label=EVIL)))
    (run / "paper_diff.md").write_text("</pre><script>alert(5)</script>")
    path = write_report(run)
    assert path == run / "report.html"
    assert_inert(path)
    raw = path.read_text("utf-8")
    assert "<script" not in raw and "<img" not in raw and "\u202e" not in raw
    text = read(path).text
    assert (
        "<script>alert(1)</script><img src=x onerror=alert(2)>⟨U+D800⟩⟨U+202E⟩ltr⟨U+001B⟩[31m</title></style>{{ 7*7 }}"
        in text
    )


def test_a_run_report_shows_the_last_and_first_scored_updates_and_their_tokens(tmp_path):
    a, b = episode(0, responses=("go",)), episode(1, won=False, responses=("no",))
    run = make_run(
        tmp_path, {1: [(a, [0.05]), (b, [0.01])], 2: [(a, [0.0]), (b, [0.4, -2.0])], 3: [(a, None)]}, metrics=METRICS
    )
    page = read(write_report(run))
    headings = [w for w in page.words if "largest mean |gap|" in w]
    assert [h.split(" (")[0] for h in headings] == ["seed, update 2", "seed, update 1"]
    tones = [(a["class"], a["title"]) for t, a in page.tags if t == "span" and "title" in a]
    assert [t for t, _ in tones] == ["p3", "m4", "p1", "p1"]
    assert tones[0][1] == "log p ordinary -1.000, with skill -0.600, gap 0.400, gate 0.881, advantage 0.500"
    assert "outcome: lost, return 0" in page.text and "avoidance skill (ok, by policy)" in page.text
    slots = [a["class"] for t, a in page.tags if t == "div" and a.get("class", "").startswith("slot ")]
    assert len(set(slots)) == 4 and sum("slot-skill" in s for s in slots) == 2
    assert "2 updates, 2 faults (left out of training)" in page.text
    assert "parse rate is low (2 ×, first in update 1)" in page.text
    assert "train.lr | 1e-06 | 0.0003 | differs" in page.text and "abc123" in page.text
    assert "success on the panel during training" not in page.text  # nothing in eval/
    assert "seconds by phase, seed" in page.text


def test_a_run_without_anything_but_a_manifest_has_a_page(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    page = read(write_report(tmp_path))
    for words in ("Nothing was evaluated", "No metrics were logged", "No update holds tokens"):
        assert words in page.text


def test_evaluations_of_a_run_become_a_curve(tmp_path):
    run = make_run(tmp_path, {1: [(episode(), [0.1])]}, metrics=METRICS)
    (run / "eval").mkdir()
    for version, wins in ((5, 1), (10, 3)):
        result = {**evaluation([i < wins for i in range(4)], 0.4, label=f"update {version}"), "policy_version": version}
        (run / "eval" / f"u{version:04d}.json").write_text(json.dumps(result))
    page = read(write_report(run))
    assert "success on the panel during training" in page.text
    for words in ("seed, household-120, T=0.4, update 5: 25 %", "seed, household-120, T=0.4, update 10: 75 %"):
        assert words in page.words
    assert "With 4 tasks at 75%" in page.text


def test_a_stage_1_run_shows_its_loss_and_no_rollout_counts(tmp_path):
    (tmp_path / "manifest.json").write_text('{"kind": "sft"}')
    (tmp_path / "metrics.jsonl").write_text('{"update": 1, "loss": 2.0, "validation_loss": 2.5}\n')
    page = read(write_report(tmp_path))
    assert "sft, update 1: 2.5" in page.words and "No training run." in page.text


def demo_at(tmp_path, seed_wins: int = 80):
    """A demo of 120 tasks: base 40, sft 44, grpo 60 at both temperatures, seed ``seed_wins`` at 1 and 60 at 0.4."""
    played = episode(0, responses=("go",))
    make_run(tmp_path / "seed", {1: [(played, [0.2])]}, metrics=METRICS)
    make_run(tmp_path / "grpo", {1: [(played, None)]}, algo="grpo", metrics=METRICS)
    (tmp_path / "eval").mkdir()
    stages = []
    for name, wins, cold, entropy in (
        ("base", 40, 50, 0.4),
        ("sft", 44, 50, 0.4),
        ("grpo", 60, 60, 0.226),
        ("seed", seed_wins, 60, 0.163),
    ):
        for temperature, won in ((1.0, wins), (0.4, cold)):
            result = evaluation(
                [i < won for i in range(120)], temperature, entropy=entropy if temperature == 1 else 0.1
            )
            (tmp_path / "eval" / f"{name}_t{temperature:g}.json").write_text(json.dumps(result))
        stages.append(
            {
                "name": name,
                "label": f"after {name}",
                "evals": [f"eval/{name}_t1.json", f"eval/{name}_t0.4.json"],
                "parse_rate": 0.9,
                "run": name if name in ("grpo", "seed") else None,
            }
        )
    (tmp_path / "demo.json").write_text(
        json.dumps(
            {"stages": stages, "difference": {}, "sentences": ["Ours."], "seconds": {"sft": 26.0, "collect": 6.0}}
        )
    )
    return tmp_path


def test_the_demo_page_compares_the_arms_and_says_what_it_does_not_show(tmp_path):
    path = write_report(demo_at(tmp_path))
    assert_inert(path)
    text = read(path).text
    order = ["after base", "after sft", "after grpo", "after seed"]
    rows = re.findall(r"(after \w+?)household-120(\d\.\d)120 × 1", text)  # cells stand without a blank between
    assert rows == [*((stage, "1.0") for stage in order), *((stage, "0.4") for stage in order)]
    assert "66.7 % [57.8, 74.5]" in text  # 80 of 120: Wilson by hand
    assert "At temperature 1 SEED minus GRPO is +16.7 points" in text and "the interval excludes 0" in text
    assert "At temperature 0.4 SEED minus GRPO is +0.0 points" in text and "no difference is shown" in text
    assert "mere sharpening" in text and "controls of the study" in text and "One RL seed" in text
    assert "2 intervals are shown" in text and "up to 10% of cases" in text
    assert "Ours." in text and "sft 26.0, collect 6.0" in text
    assert "0.163" in text and "90 %" in text


def test_a_demo_that_names_a_missing_file_is_an_error(tmp_path):
    demo = demo_at(tmp_path)
    (demo / "eval" / "seed_t1.json").unlink()
    with pytest.raises(UserError, match=r"seed_t1\.json'?, which is missing"):
        write_report(demo)
    with pytest.raises(UserError, match=r"holds no manifest\.json"):
        write_report(tmp_path / "eval")


def test_verdict_speaks_only_of_like_with_like():
    a, b = evaluation([True] * 8, 1.0), evaluation([False] * 8, 1.0)
    assert len(verdict([a], [evaluation([True], 0.4)], {})) == 1
    assert "nothing can be said" in verdict([a], [evaluation([True] * 8, 1.0, panel_hash="other")], {})[0]
    said = " ".join(verdict([a], [b], {"grpo": 0.2, "seed": None}))
    assert "-100.0 points" in said and "the interval excludes 0" in said
    assert "8 tasks are too few" in said and "are not known" in said
    assert "sharpening of the policy" not in said


@pytest.mark.parametrize(
    ("grpo", "seed", "says"),
    [
        (0.2, 0.1, "entropy of SEED is the lower one"),
        (0.1, 0.2, "entropy of GRPO is the lower one"),
        (0.2, 0.2, "are alike"),
    ],
)
def test_verdict_on_entropy(grpo, seed, says):
    both = [evaluation([True, False] * 20, 1.0)]
    said = " ".join(verdict(both, both, {"grpo": grpo, "seed": seed}))
    assert says in said and "flatters" in said and "does not exclude 0" in said

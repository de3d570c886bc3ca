"""The graph of who did what: exactly what is recorded, gone with its record, alike in any place, inert as a drawing."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from rundirs import EVIL
from safetensors.numpy import load_file, save_file
from topology_runs import collect_run, demo, dump, manifest, sft_run, sha, train_run

from seedbed.config import load_config
from seedbed.track.run import Run
from seedbed.track.run_records import weights_of
from seedbed.track.store import append_jsonl, read_jsonl
from seedbed.track.topology import Edge, Graph, topology
from seedbed.train import annotate, collect, sft
from seedbed.train.rl import Trainer
from seedbed.train.state import latest_checkpoint
from seedbed.types import UserError
from seedbed.view.topology_svg import condensed, draw, sentences, svg_file

BASE, TUNED = (f"model {sha(weights)[:12]}" for weights in ("base", "tuned"))
COLLECT = {
    f"{BASE} acts as actor (collect)",
    "actor (collect) played trajectories (collect)",
    "tasks (collect) made into trajectories (collect)",
    "trajectories (collect) made into skills (collect)",
    "rules (collect) annotated skills (collect)",
}
SFT = {
    "trajectories (collect) made into Stage-1 rows (sft)",
    "skills (collect) made into Stage-1 rows (sft)",
    f"{BASE} acts as policy (sft)",
    "Stage-1 rows (sft) trained policy (sft)",
    "policy (sft) saved checkpoint u0001 (sft)",
    f"checkpoint u0001 (sft) holds {TUNED}",
}


def arm(run: str, end: str, start: str = TUNED) -> set[str]:
    """What GRPO records of two updates."""
    roles = {f"{start} acts as {role} ({run})" for role in ("actor", "scorer", "policy")}
    later = {f"policy ({run}) snapshot {role} ({run})" for role in ("actor", "scorer")}
    return {
        *roles,
        *later,
        f"actor ({run}) played trajectories ({run})",
        f"trajectories ({run}) made into scores ({run})",
        f"scorer ({run}) scored scores ({run})",
        f"scores ({run}) trained policy ({run})",
        f"policy ({run}) saved checkpoint u0002 ({run})",
        f"checkpoint u0002 ({run}) holds model {sha(end)[:12]}",
    }


SKILLED = {  # what SEED has beyond it
    f"{TUNED} acts as analyzer (seed)",
    f"{TUNED} acts as teacher (seed)",
    "policy (seed) snapshot analyzer (seed)",
    "policy (seed) snapshot teacher (seed)",
    "analyzer (seed) analysed skills (seed)",
    "trajectories (seed) made into skills (seed)",
    "skills (seed) made into scores (seed)",
    "teacher (seed) scored scores (seed)",
}


def said(*folders: Path) -> set[str]:
    return set(sentences(topology(folders)))


def test_a_demo_is_exactly_these_relations(tmp_path: Path) -> None:
    expected = COLLECT | SFT | arm("grpo", "grpo end") | arm("seed", "seed end") | SKILLED
    expected |= {f"Stage-1 rows (sft) trained policy ({run})" for run in ("grpo", "seed")}
    expected |= {"evaluation (.) evaluated on panel household-120", "policy (seed) played evaluation (.)"}
    folder = demo(tmp_path)
    assert said(folder) == expected
    graph = topology([folder])
    assert len(graph.edges) == len(expected) + 1  # two evaluations are on the panel
    ends = {end for edge in graph.edges for end in (edge.source, edge.target)}
    assert [node.id for node in graph.nodes] == sorted(ends)
    assert topology([folder / n for n in ("seed", "sft", "grpo", "collect")]).nodes == tuple(
        n for n in graph.nodes if "eval" not in n.id and "panel" not in n.id
    )


def test_json_is_stable_and_every_edge_names_files_that_exist(tmp_path: Path) -> None:
    folder = demo(tmp_path)
    stored = topology([folder]).as_json()
    assert json.dumps(stored) == json.dumps(topology([folder]).as_json())
    keys = [(e["source"], e["target"], e["relation"]) for e in stored["edges"]]
    assert keys == sorted(keys) and {n["kind"] for n in stored["nodes"]} == {"model", "role", "artefact", "data"}
    for edge in stored["edges"]:
        assert edge["evidence"] and all(list(folder.glob(item["file"])) for item in edge["evidence"])


def _without(path: Path, key: str) -> None:
    """Take one record away: a key of every line or object, the finite values of an array, or a file."""
    if path.suffix == ".safetensors" and path.parent.name == "trajectories":
        arrays = load_file(path)
        arrays[key] = np.full_like(arrays[key], np.nan)
        save_file(arrays, path)
    elif path.suffix == ".jsonl" and path.parent.name != "trajectories" and path.name != "skills.jsonl":
        lines = [{k: v for k, v in row.items() if k != key} for row in read_jsonl(path)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif path.suffix == ".json" and "checkpoints" not in path.parts:
        dump(path, {k: v for k, v in json.loads(path.read_text()).items() if k != key})
    else:
        path.unlink()


def test_with_every_record_exactly_its_edges_vanish(tmp_path: Path) -> None:
    whole = demo(tmp_path / "whole")
    before = topology([whole])
    records = sorted({item for edge in before.edges for item in edge.evidence})
    assert len(records) > 40
    by_file = {"trajectories/*.jsonl", "skills.jsonl", "state.json", "config.resolved.yaml", "policy/*.safetensors"}
    for n, record in enumerate(records):
        broken = tmp_path / f"broken{n}"
        shutil.copytree(whole, broken)
        for path in broken.glob(record.file):
            _without(path, record.key)
        left = topology([broken])
        whole_file = any(record.file.endswith(end) for end in by_file)  # then all of its keys are gone

        # the scores of episodes that are gone are of nothing
        files = {record.file} | (
            {record.file.replace("jsonl", "safetensors")} if "trajectories" in record.file else set()
        )

        def cites(edge: Edge, record=record, files=files if whole_file else set()) -> bool:
            return any(item == record or item.file in files for item in edge.evidence)

        assert set(left.edges) == {edge for edge in before.edges if not cites(edge)}, record


def test_nothing_recorded_nothing_drawn(tmp_path: Path) -> None:
    for kind in ("collect", "sft", "train", "other", None):
        dump(tmp_path / str(kind) / "manifest.json", {"kind": kind, "model": {"model.safetensors": "x"}, "panel": {}})
    graph = topology([tmp_path])
    assert graph == Graph((), ()) and draw(graph) == ""
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty holds no run"):
        topology([tmp_path / "empty"])


def test_each_run_alone_says_only_what_it_records(tmp_path: Path) -> None:
    folder = demo(tmp_path)
    assert said(folder / "collect") == COLLECT
    assert said(folder / "sft") == {line for line in SFT if "(collect)" not in line}
    assert said(folder / "grpo") == arm("grpo", "grpo end")  # no teacher, no analyzer
    assert said(folder / "seed") == arm("seed", "seed end") | SKILLED


def test_the_same_weights_in_two_places_are_one_node_whatever_the_file_is_called(tmp_path: Path) -> None:
    for name in ("a", "b"):
        train_run(tmp_path / name / "run", skills=False, end="same")
    policy = tmp_path / "b" / "run" / "checkpoints" / "u0002" / "policy"
    (policy / "model.safetensors").rename(policy / "other.safetensors")
    graph = topology([tmp_path / "b" / "run", tmp_path / "a" / "run", tmp_path / "a" / "run"])
    held = [edge for edge in graph.edges if edge.relation == "holds"]
    assert [edge.target for edge in held] == [f"model:{sha('same')}"] * 2
    assert {node.facts.get("run") for node in graph.nodes if node.kind == "role"} == {"a/run", "b/run"}
    split = {"x.safetensors": "2", "config.json": "9", "y.safetensors": "1"}
    assert weights_of(split) == sha("1\n2") and weights_of({"config.json": "9"}) == weights_of(None) == ""


@pytest.mark.parametrize(
    ("facts", "who"),
    [({"policy": "random"}, "random"), ({"server": "qwen"}, "qwen"), ({}, BASE)],
)
def test_who_played_without_weights_here_goes_by_name(tmp_path: Path, facts: dict, who: str) -> None:
    lines = said(collect_run(tmp_path / "collect", **facts))
    assert {line for line in lines if "acts as" in line} == {f"{who} acts as actor (collect)"}


def test_an_external_annotator_and_its_journal(tmp_path: Path) -> None:
    run = collect_run(tmp_path / "collect", source="glm")
    asked = [{"trajectory": "v0/mug-1/0", "status": "answered"}, {"trajectory": "v0/mug-1/1", "status": "timeout"}]
    append_jsonl(run / "annotations.jsonl", asked)
    assert said(run) - COLLECT == {
        "glm acts as annotator (collect)",
        "annotator (collect) annotated skills (collect)",
        "annotator (collect) annotated annotations (collect)",
        "annotations (collect) made into skills (collect)",
    }


def test_the_model_behind_skills_by_the_policy_is_drawn_only_if_recorded(tmp_path: Path) -> None:
    run = collect_run(tmp_path / "collect", source="policy")
    assert said(run) - COLLECT == {"analyzer (collect) analysed skills (collect)"}
    dump(run / "annotate.json", {"by": "policy", "model": {"model.safetensors": sha("base")}})
    assert f"{BASE} acts as analyzer (collect)" in said(run)


def _edit_rows(run: Path, key: str) -> None:
    rows = [{**row, key: "other"} for row in read_jsonl(run / "sft_data.jsonl")]
    (run / "sft_data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _edit_skill_version(run: Path) -> None:
    rows = [{**row, "version": 7} for row in read_jsonl(run / "skills.jsonl")]
    (run / "skills.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("edit", "gone"),
    [
        (lambda p: _edit_rows(p / "sft", "sha256"), {"trajectories (collect) made into Stage-1 rows (sft)"}),
        (lambda p: _edit_rows(p / "sft", "response"), {"skills (collect) made into Stage-1 rows (sft)"}),
        (
            lambda p: _edit_skill_version(p / "seed"),
            {f"{TUNED} acts as analyzer (seed)", "policy (seed) snapshot analyzer (seed)"},
        ),
    ],
)
def test_records_that_disagree_are_no_relation(tmp_path: Path, edit: Callable[[Path], None], gone: set[str]) -> None:
    folder = demo(tmp_path)
    before = said(folder)
    edit(folder)
    assert before - said(folder) == gone and said(folder) <= before


def test_a_reference_only_with_a_kl_term(tmp_path: Path) -> None:
    lines = said(train_run(tmp_path / "run", skills=False, kl=True)) - arm("run", "trained")
    assert lines == {f"{TUNED} acts as reference (run)", "reference (run) reference of policy (run)"}


def test_damaged_files_are_named(tmp_path: Path) -> None:
    folder = demo(tmp_path)
    (folder / "seed" / "trajectories" / "u0001.jsonl").write_text("{}\n")
    with pytest.raises(UserError, match=r"u0001\.jsonl line 1 is not a trajectory"):
        topology([folder])


def test_a_hostile_name_is_text_and_the_drawing_is_inert(tmp_path: Path) -> None:
    run = collect_run(tmp_path / "a<b>&\"'", source=EVIL, policy=EVIL)
    dump(run / "eval" / "x.json", {"panel": EVIL, "panel_hash": EVIL, "label": EVIL, "policy": EVIL})
    drawing = svg_file(topology([run]))
    root = ET.fromstring(drawing)
    space = "{http://www.w3.org/2000/svg}"
    names = {element.tag.removeprefix(space) for element in root.iter()}
    assert names == {"svg", "title", "desc", "style", "g", "text", "polyline", "rect"}
    assert not [a for e in root.iter() for a in e.attrib if a.startswith("on") or "href" in a]
    assert "url(" not in drawing and drawing.count("http") == 1  # the name space alone
    shown = "".join(root.find(f"{space}desc").itertext())
    assert "<script>alert(1)</script>" in shown and "⟨U+202E⟩" in shown and "\x1b" not in drawing


def test_the_drawing_has_every_box_and_relation_once_and_no_box_on_another(tmp_path: Path) -> None:
    graph = topology([demo(tmp_path)])
    root = ET.fromstring(str(draw(graph)))
    labels = [e.text for e in root.iter("text") if e.get("class") == "relation"]
    later = [edge for edge in graph.edges if edge.relation == "snapshot"]
    assert len(labels) == len(graph.edges) - len(later) + len({edge.source for edge in later})  # those share a lane
    boxes = [g for g in root.iter("g") if g.get("class") is None]
    assert len(boxes) == len(graph.nodes)
    corners = []
    for box in boxes:
        shape = next(e for e in box if e.tag in ("rect", "polyline"))
        points = re.findall(r"([\d.]+),([\d.]+)", shape.get("points") or f"{shape.get('x')},{shape.get('y')}")
        corners.append((min(float(x) for x, _ in points), min(float(y) for _, y in points)))
    for i, (x, y) in enumerate(corners):
        assert all(abs(x - a) >= 140 or abs(y - b) >= 38 for a, b in corners[:i])
    assert str(draw(graph)) == str(draw(topology([tmp_path])))


def test_a_long_run_is_drawn_with_its_newest_checkpoint_and_those_that_others_start_from(tmp_path: Path) -> None:
    from topology_runs import checkpoint

    train_run(tmp_path / "long", skills=False, updates=2, end="two")
    for update in (3, 4):
        checkpoint(tmp_path / "long", update, f"weights {update}")
    manifest(tmp_path / "next", "train", "two")
    append_jsonl(tmp_path / "next" / "metrics.jsonl", [{"update": 1, "optimizer_steps": 1}])
    for update in (1, 2):
        result = {"panel": "p", "panel_hash": "p", "policy_version": update, "temperature": 0.4}
        dump(tmp_path / "long" / "eval" / f"u{update:04d}.json", result)
    graph = topology([tmp_path])
    assert {n.label for n in graph.nodes if "checkpoint" in n.label} == {f"checkpoint u000{u}" for u in (2, 3, 4)}
    drawn = [n.label for n in condensed(graph).nodes]
    assert {label for label in drawn if "checkpoint" in label} == {"checkpoint u0002", "checkpoint u0004"}
    assert [label for label in drawn if "evaluation" in label] == ["2 evaluations"]


def test_equal_weights_after_training_close_a_circle_that_is_drawn(tmp_path: Path) -> None:
    graph = topology([train_run(tmp_path / "run", skills=False, end="tuned")])
    assert ET.fromstring(str(draw(graph))).tag == "svg"


def test_what_the_software_writes_is_what_the_graph_reads(tmp_path: Path) -> None:
    """Collect, rules, one epoch and one SEED update of the shipped tiny model: the chain of the demo."""
    torch.set_num_threads(1)
    small = ["collect.tasks=3", "collect.attempts=2", "rollout.max_turns=3", "sft.epochs=1", "sft.eval_trajectories=2"]
    config = load_config("tiny", [*small, "sft.validation=0", "train.updates=1", "train.tasks=2", "train.attempts=2"])
    collected, tuned = Run.new(tmp_path / "collect"), Run.new(tmp_path / "sft")
    collect.collect(collected, config)
    annotate.annotate(collected, config, "rules")
    sft.fine_tune(tuned, config, collected)
    data = config.model_dump()
    data["model"]["path"] = str(latest_checkpoint(tuned.checkpoints))
    Trainer(Run.new(tmp_path / "seed"), type(config).model_validate(data)).train()
    found = topology([tmp_path])
    names = {node.id: node.label for node in found.nodes}
    tiny = next(names[e.source] for e in found.edges if e.target == "role:collect/actor" and e.relation == "acts as")
    middle = next(names[e.target] for e in found.edges if e.source == "artefact:sft/checkpoints/u0001")
    end = next(names[e.target] for e in found.edges if e.source == "artefact:seed/checkpoints/u0001")
    assert len({tiny, middle, end}) == 3
    lines = {line.replace(tiny, BASE).replace(middle, TUNED).replace(end, "END") for line in sentences(found)}
    one = {line.replace("u0002", "u0001") for line in arm("seed", "") | SKILLED if "snapshot" not in line}
    one = {f"{line.partition(' holds ')[0]} holds END" if " holds " in line else line for line in one}
    taught = {line for line in SKILLED if "teacher" in line} | {"skills (seed) made into scores (seed)"}
    expected = COLLECT | SFT | one | {"Stage-1 rows (sft) trained policy (seed)"}
    expected |= {f"{TUNED} acts as reference (seed)", "reference (seed) reference of policy (seed)"}
    assert expected - taught <= lines <= expected  # a policy after one epoch may write no valid skill
    scored = any((skill["status"] in ("ok", "ok_repaired")) for skill in read_jsonl(tmp_path / "seed" / "skills.jsonl"))
    assert bool(lines & taught) == scored


def test_the_command_prints_every_edge_with_its_evidence_and_writes_files(tmp_path: Path, capsys) -> None:
    from seedbed.commands.topology import topology as command

    folder = sft_run(tmp_path / "sft", collect_run(tmp_path / "collect"))
    command([folder])
    lines = capsys.readouterr().out.splitlines()
    assert "policy (sft) saved checkpoint u0001 (sft)   [sft/checkpoints/u0001/state.json: update]" in lines
    command([folder], svg=tmp_path / "g.svg", as_json=tmp_path / "g.json")
    graph = topology([folder])
    assert json.loads((tmp_path / "g.json").read_text()) == graph.as_json()
    assert (tmp_path / "g.svg").read_text() == svg_file(graph) and capsys.readouterr().out == ""
    (folder / "metrics.jsonl").unlink()
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(UserError, match="record no relation"):
        command([folder])

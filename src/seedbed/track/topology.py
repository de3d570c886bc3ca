"""Who did what? A graph of models, roles, artefacts and data of some runs, built only from relations that they record.

An edge stands for a relation that the files of the given folders hold, names those files and keys as its evidence, and
is gone when any of them is. Models are told apart by the content of their weights, never by place or name; only what
has no weights here (a served or external model, a player without a model) goes by its name. Edges point forward in
time:

    model       acts as       role         weights that a run gave to a role (version 0 is the run's start model)
    role        snapshot      role         the policy after one or more updates, in a role that does not change it
    role        played        artefact     an actor its episodes, a policy an evaluation
    role        analysed      artefact     the policy as analyzer its skills
    role        annotated     artefact     rules or an external model the skills, or answers in the journal
    role        scored        artefact     scorer (ordinary context) and teacher (skill context) the log-probs
    artefact    made into     artefact     what was made of what
    artefact    trained       role         data a trained policy
    role        reference of  role         the frozen start of a KL term
    role        saved         artefact     a policy its checkpoint
    artefact    holds         model        a checkpoint its weights
    artefact    evaluated on  data         an evaluation its panel

As JSON (``Graph.as_json``), in stable order: ``{"nodes": [{"id", "kind", "label", "facts"}], "edges": [{"source",
"target", "relation", "evidence": [{"file", "key"}]}]}`` with ``kind`` one of model, role, artefact, data. ``file`` is
relative to the folder that holds the runs, with ``*`` where all files of that pattern together are the record.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from seedbed.track.run_records import Records, weights_of
from seedbed.types import Skill, UserError

Kind = Literal["model", "role", "artefact", "data"]


class Evidence(NamedTuple):
    """Where a relation is recorded."""

    file: str
    key: str


@dataclass(frozen=True, slots=True)
class Node:
    id: str
    kind: Kind
    label: str
    facts: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edge:
    """``source relation target`` reads as a sentence; without any one item of ``evidence`` it would not be there."""

    source: str
    target: str
    relation: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by id and edges by (source, target, relation), sorted; a node without an edge is not in it."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def as_json(self) -> dict[str, Any]:
        nodes = [{"id": n.id, "kind": n.kind, "label": n.label, "facts": dict(n.facts)} for n in self.nodes]
        edges = [
            {
                "source": e.source,
                "target": e.target,
                "relation": e.relation,
                "evidence": [item._asdict() for item in e.evidence],
            }
            for e in self.edges
        ]
        return {"nodes": nodes, "edges": edges}


def topology(folders: Sequence[Path]) -> Graph:
    """The graph of run directories; a folder without ``manifest.json`` stands for the runs right below it (a demo).

    Raises ``UserError`` for a folder with neither, and for a damaged file in it.
    """
    runs, outer = _runs(folders)
    book = _Book()
    for run in runs:
        {"collect": _collect, "sft": _sft, "train": _train}.get(run.kind, _nothing)(book, run, runs)
        _evaluations(book, run)
    for folder in outer:
        _evaluations(book, folder)
        _stages(book, folder, runs)
    return book.graph()


class _Book:
    """Collects edges with their ends."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: dict[tuple[str, str, str], Edge] = {}

    def add(self, source: Node, relation: str, target: Node, *evidence: tuple[str, str]) -> None:
        for node in (source, target):
            self.nodes.setdefault(node.id, node)
        key = (source.id, target.id, relation)
        self.edges.setdefault(key, Edge(*key, tuple(sorted(Evidence(*item) for item in evidence))))

    def graph(self) -> Graph:
        return Graph(
            tuple(self.nodes[key] for key in sorted(self.nodes)), tuple(self.edges[key] for key in sorted(self.edges))
        )


def _runs(folders: Sequence[Path]) -> tuple[list[Records], list[Records]]:
    """(run directories, folders that hold some), each once, named from the folder that holds them all."""
    found: list[Path] = []
    outer: list[Path] = []
    for folder in map(Path.resolve, folders):
        if (folder / "manifest.json").is_file():
            found.append(folder)
            continue
        below = sorted(path.parent for path in folder.glob("*/manifest.json"))
        if not below:
            raise UserError(f"{folder} holds no run: name run directories, or a folder of them such as a demo")
        found += below
        outer.append(folder)
    base = Path(os.path.commonpath([*(path.parent for path in found), *outer])) if found else Path()
    return tuple([Records(path, base) for path in dict.fromkeys(paths)] for paths in (found, outer))


def _role(run: Records, name: str, label: str, weights: str, **facts: str) -> Node:
    return Node(f"role:{run.name}/{name}", "role", label, {"run": run.name, "weights": weights, **facts})


def _policy(run: Records) -> Node:
    return _role(run, "policy", "policy", "updated")


def _artefact(run: Records, file: str, label: str, **facts: str | int) -> Node:
    return Node(f"artefact:{run.inside(file)}", "artefact", label, {"run": run.name, **facts})


def _episodes(run: Records) -> Node:
    return _artefact(run, "trajectories/*.jsonl", "trajectories", parts=len(run.parts))


def _skills(run: Records) -> Node:
    return _artefact(run, "skills.jsonl", "skills")


def _rows(run: Records) -> Node:
    return _artefact(run, "sft_data.jsonl", "Stage-1 rows", rows=len(run.rows))


def _weights(sha256: str) -> Node:
    return Node(f"model:{sha256}", "model", f"model {sha256[:12]}", {"sha256": sha256})


def _named(name: str, what: str) -> Node:
    return Node(f"model:name:{name}", "model", name, {"what": what})


def _model(facts: Mapping[str, Any]) -> tuple[Node | None, str]:
    """The model that a manifest or result names, and the key that does."""
    if facts.get("policy"):  # the model recorded beside it only carried the text
        return _named(str(facts["policy"]), "player without a model"), "policy"
    if facts.get("server"):  # whatever weights lie here, the server's were not seen
        return _named(str(facts["server"]), "served, weights not seen"), "server"
    sha256 = weights_of(facts.get("model"))
    return (_weights(sha256) if sha256 else None), "model"


def _snapshots(book: _Book, run: Records, role: Node, versions: Iterable[int], *evidence: tuple[str, str]) -> None:
    """Whose weights a role had that does not change them: version 0 is the start, every later one the policy."""
    versions = set(versions)
    start, key = _model(run.manifest)
    if 0 in versions and start:
        book.add(start, "acts as", role, run.at("manifest.json", key), *evidence)
    if any(version > 0 for version in versions):
        book.add(_policy(run), "snapshot", role, *evidence)


def _nothing(book: _Book, run: Records, runs: Sequence[Records]) -> None:
    """A kind of run that this file knows no relation of."""


def _collect(book: _Book, run: Records, runs: Sequence[Records]) -> None:
    if run.parts:
        version, actor = run.at("trajectories/*.jsonl", "version"), _role(run, "actor", "actor", "not updated")
        book.add(actor, "played", _episodes(run), version)
        _snapshots(book, run, actor, run.versions.values(), version)
    if run.tasks & {episode.task for episode in run.episodes.values()}:
        tasks = Node(f"data:{run.inside('tasks.jsonl')}", "data", "tasks", {"run": run.name, "tasks": len(run.tasks)})
        evidence = run.at("tasks.jsonl", "id"), run.at("trajectories/*.jsonl", "task")
        book.add(tasks, "made into", _episodes(run), *evidence)
    _authors(book, run)
    by, key = _model(run.annotate)
    if by and any(skill.source == "policy" for skill, _ in run.skills):
        source = run.at("skills.jsonl", "source")
        book.add(by, "acts as", _analyzer(run), run.at("annotate.json", key), source)


def _analyzer(run: Records) -> Node:
    return _role(run, "analyzer", "analyzer", "not updated")


def _authors(book: _Book, run: Records) -> None:
    """Who wrote the skills of a run, and about what."""
    skills, source = _skills(run), run.at("skills.jsonl", "source")
    for author in sorted({skill.source for skill, _ in run.skills}):
        if author == "policy":
            book.add(_analyzer(run), "analysed", skills, source)
        elif author == "rules":
            book.add(_role(run, "rules", "rules", "none"), "annotated", skills, source)
        else:
            role = _role(run, f"annotator/{author}", "annotator", "external")
            book.add(_named(author, "external, weights not seen"), "acts as", role, source)
            book.add(role, "annotated", skills, source)
            if run.answered and run.annotate.get("author") == author:
                told = run.at("annotate.json", "author"), run.at("annotations.jsonl", "status")
                book.add(role, "annotated", _journal(run), *told)
    about = {skill.trajectory for skill, _ in run.skills}
    of = run.at("skills.jsonl", "trajectory")
    if about & run.episodes.keys():
        book.add(_episodes(run), "made into", skills, of, run.at("trajectories/*.jsonl", "id"))
    if about & run.answered:
        book.add(_journal(run), "made into", skills, of, run.at("annotations.jsonl", "trajectory"))


def _journal(run: Records) -> Node:
    return _artefact(run, "annotations.jsonl", "annotations", answered=len(run.answered))


def _sft(book: _Book, run: Records, runs: Sequence[Records]) -> None:
    policy, loss = _policy(run), run.at("metrics.jsonl", "loss")
    if run.rows:
        for other in runs:
            _sources(book, run, other)
    if run.logged("loss"):
        start, key = _model(run.manifest)
        if start:
            book.add(start, "acts as", policy, run.at("manifest.json", key), loss)
        if run.trains_on_rows:
            book.add(_rows(run), "trained", policy, run.at("sft_data.jsonl", "split"), loss)
    _checkpoints(book, run)


def _sources(book: _Book, run: Records, other: Records) -> None:
    """A collect run is what Stage-1 rows came from if it holds every one of their episodes, or answers, as it was."""
    if other.kind != "collect":
        return
    if all(r.get("sha256") == other.sha256(r.get("trajectory")) for r in run.rows):
        both = run.at("sft_data.jsonl", "sha256"), other.at("trajectories/*.jsonl", "id")
        book.add(_episodes(other), "made into", _rows(run), *both)
    written = {_answer(skill) for skill, _ in other.skills if skill.valid}
    if all(answer in written for answer in run.answers):
        both = run.at("sft_data.jsonl", "response"), other.at("skills.jsonl", "text")
        book.add(_skills(other), "made into", _rows(run), *both)


def _answer(skill: Skill) -> tuple[str, str, str]:
    return skill.trajectory, skill.source, skill.text


def _train(book: _Book, run: Records, runs: Sequence[Records]) -> None:
    policy, steps = _policy(run), run.at("metrics.jsonl", "optimizer_steps")
    start, key = _model(run.manifest)
    if run.logged("optimizer_steps") and start:
        book.add(start, "acts as", policy, run.at("manifest.json", key), steps)
    if run.logged("kl"):
        kl, reference = run.at("metrics.jsonl", "kl"), _role(run, "reference", "reference", "frozen")
        book.add(reference, "reference of", policy, kl)
        if start:
            book.add(start, "acts as", reference, run.at("manifest.json", key), kl)
    if run.parts:
        version, actor = run.at("trajectories/*.jsonl", "version"), _role(run, "actor", "actor", "not updated")
        book.add(actor, "played", _episodes(run), version)
        _snapshots(book, run, actor, run.versions.values(), version)
        _scores(book, run)
    _authors(book, run)
    written = [(s.version, run.versions.get(f"u{extra.get('update')!s:0>4}")) for s, extra in run.skills]
    same = {version for version, played in written if version == played}  # one snapshot played and analysed
    if any(skill.source == "policy" for skill, _ in run.skills):
        both = run.at("skills.jsonl", "version"), run.at("trajectories/*.jsonl", "version")
        _snapshots(book, run, _analyzer(run), same, *both)
    if run.logged("loss_rehearsal") and start:
        for other in runs:
            _rehearsal(book, run, other, start)
    _checkpoints(book, run)


def _scores(book: _Book, run: Records) -> None:
    """Log-probs and advantages beside the episodes: scorer in the ordinary context, teacher with the skill."""
    scores = _artefact(run, "trajectories/*.safetensors", "scores")
    for array, name in (("ordinary", "scorer"), ("skill", "teacher")):
        parts = run.finite(array)
        if parts:
            stored, role = run.at("trajectories/*.safetensors", array), _role(run, name, name, "not updated")
            book.add(role, "scored", scores, stored)
            version = run.at("trajectories/*.jsonl", "version")
            _snapshots(book, run, role, (run.versions[part] for part in parts), stored, version)
            if name == "scorer":
                tokens = run.at("trajectories/*.jsonl", "turns")
                book.add(_episodes(run), "made into", scores, tokens, stored)
            elif any(skill.valid for skill, _ in run.skills):
                book.add(_skills(run), "made into", scores, run.at("skills.jsonl", "text"), stored)
    if run.finite("advantage") and run.logged("optimizer_steps"):
        used = run.at("trajectories/*.safetensors", "advantage"), run.at("metrics.jsonl", "optimizer_steps")
        book.add(scores, "trained", _policy(run), *used)


def _rehearsal(book: _Book, run: Records, other: Records, start: Node) -> None:
    """Stage-1 rows in Stage 2: of the folder that the settings name, else of the sft run that holds the start model."""
    if other.kind != "sft" or not other.trains_on_rows:
        return
    rows, logged = other.at("sft_data.jsonl", "split"), run.at("metrics.jsonl", "loss_rehearsal")
    named = run.setting("train", "rehearsal_data")
    said = run.at("config.resolved.yaml", "train.rehearsal_data")
    if named and Path(str(named)).resolve() == other.path:
        book.add(_rows(other), "trained", _policy(run), rows, logged, said)
    elif named == "":
        for update, sha256 in other.checkpoints.items():
            if start.id == f"model:{sha256}":
                held = other.at(f"checkpoints/{update}/policy/*.safetensors", "sha256")
                evidence = rows, logged, said, held, run.at("manifest.json", "model")
                book.add(_rows(other), "trained", _policy(run), *evidence)


def _checkpoints(book: _Book, run: Records) -> None:
    names = list(run.checkpoints)
    for name, sha256 in run.checkpoints.items():
        facts = {"newest": "yes"} if name == names[-1] else {}
        node = _artefact(run, f"checkpoints/{name}", f"checkpoint {name}", **facts)
        if run.saved(name):
            book.add(_policy(run), "saved", node, run.at(f"checkpoints/{name}/state.json", "update"))
        if sha256:
            stored = run.at(f"checkpoints/{name}/policy/*.safetensors", "sha256")
            book.add(node, "holds", _weights(sha256), stored)


def _evaluation(run: Records, file: str, result: Mapping[str, Any]) -> Node:
    facts = {name: str(result[key]) for name, key in (("of", "label"), ("T", "temperature")) if key in result}
    return _artefact(run, file, "evaluation", **facts)


def _evaluations(book: _Book, run: Records) -> None:
    for file, result in run.evaluations.items():
        node = _evaluation(run, file, result)
        if result.get("panel_hash"):
            panel = str(result["panel_hash"])
            facts = {"hash": panel}
            where = Node(f"data:panel/{panel}", "data", f"panel {result.get('panel', '')}".strip(), facts)
            book.add(node, "evaluated on", where, run.at(file, "panel_hash"))
        player, key = _model(result)
        if player:
            book.add(player, "played", node, run.at(file, key))
        if run.kind == "train" and isinstance(result.get("policy_version"), int) and result["policy_version"] > 0:
            book.add(_policy(run), "played", node, run.at(file, "policy_version"))


def _stages(book: _Book, demo: Records, runs: Sequence[Records]) -> None:
    """Evaluations of which a demo says that they are of a run's policy."""
    by_path = {run.path: run for run in runs if run.kind in ("sft", "train")}
    for name, files in demo.stages:
        run = by_path.get(demo.path / name)
        for file in files if run else ():
            if "episodes" in demo.evaluations.get(file, {}):
                node = _evaluation(demo, file, demo.evaluations[file])
                book.add(_policy(run), "played", node, demo.at("demo.json", "stages"), demo.at(file, "episodes"))

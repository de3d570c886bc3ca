"""The strict track: can the paper's numbers be had with the paper's settings, and what came of each of its claims?

The folder holds ``strict.yaml`` (presets and reasons), the freeze (``manifest.json``), ``data.json``,
``config_diff.json`` and ``.md``, the runs as ``repro/legs.py`` lists them, and the report. Whatever needs no model is
done here; a step that trains or evaluates one says the command.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seedbed.repro import here, plan
from seedbed.repro.alignment import departures, sides, table
from seedbed.repro.counts import BENCHMARKS, Count, counts, mend
from seedbed.repro.legs import TRAINED, UNSEEN, collected, trained, unseen, vanilla
from seedbed.repro.manifest import check as check_manifest
from seedbed.repro.plan import DEFAULT, Plan, load_plan
from seedbed.repro.report import FILES, report, write_report
from seedbed.track.run import Run
from seedbed.track.store import replace_file
from seedbed.tracks.base import Finding, Step
from seedbed.train.model import folder_hashes, load_renderer, model_facts, resolve
from seedbed.types import UserError


def begin(folder: Path, presets: Sequence[str] = DEFAULT) -> None:
    """Choose what is reproduced. Raises ``UserError`` if the folder is about something else already."""
    plan.begin(folder, presets)


def _plan(folder: Path) -> Plan:
    return load_plan(folder) or plan.begin(folder, DEFAULT)


class Freeze(Step):
    name = "freeze"
    title = "what everything below stands on: code, model, data, packages, machine, by hash"
    done_when = "manifest.json is valid, and code, paper values and panel are still what it says"

    def check(self, folder: Path) -> Finding:
        chosen, run = load_plan(folder), Run(folder)
        if chosen is None or not run.begun:
            return Finding("open", "nothing is frozen yet")
        manifest = run.manifest
        check_manifest(manifest, "manifest.json")
        now = {"code": here.code()["tree"], "values": here.paper()["values"], "tables": here.paper()["tables"]}
        was = {"code": manifest["code"]["tree"], **{key: manifest["paper"][key] for key in ("values", "tables")}}
        if changed := [key for key, value in now.items() if value != was[key]]:
            return Finding(
                "failed", f"{', '.join(changed)} changed since the freeze: freeze again", {"changed": changed}
            )
        if run.config != chosen.config:
            return Finding("failed", "the settings changed since the freeze: freeze again")
        model, evidence = _small_files(chosen), {"commit": manifest["code"]["commit"], "model": manifest.get("model")}
        if model is None:
            return Finding("done", f"frozen; {chosen.config.model.path} is not here, so no model is frozen", evidence)
        frozen = {k: v for k, v in (manifest.get("model") or {}).items() if not k.endswith(".safetensors")}
        if not frozen:
            return Finding("open", "the model came after the freeze: freeze again", evidence)
        if frozen != model:
            return Finding("failed", "another model is here than was frozen: put it back or freeze again", evidence)
        return Finding("done", "frozen, with the model by hash", evidence)

    def run(self, folder: Path) -> None:
        chosen, run = _plan(folder), Run(folder)
        facts: dict[str, Any] = {}
        if _small_files(chosen) is not None:
            facts = model_facts(chosen.config.model, load_renderer(chosen.config.model))
        (folder / "manifest.json").unlink(missing_ok=True)
        run.begin(chosen.config, "strict", presets=list(chosen.presets), **facts)


class Data(Step):
    name = "data"
    title = "whether the data is the paper's: counts of Table 3, drawn tasks and panels by hash"
    done_when = "data.json is what is counted here, and no count of the chosen benchmark is wrong or missing"
    needs = ("freeze",)

    def check(self, folder: Path) -> Finding:
        path, chosen = folder / "data.json", load_plan(folder)
        if chosen is None or not path.is_file():
            return Finding("open", "nothing is counted yet")
        name = chosen.config.env.name
        stored = [row for row in _json(path) if row["benchmark"] == name]
        again = [asdict(row) for row in _counts(chosen)]
        evidence = {"same": _number(stored, "same"), "not here": _number(stored, "not here"), "file": path.name}
        if stored != again:
            return Finding("failed", "data.json is not what is counted here now: count again", evidence)
        if wrong := [row["what"] for row in stored if row["state"] == "differs"]:
            return Finding("failed", f"not the paper's: {', '.join(wrong)}", evidence)
        if missing := [row["what"] for row in stored if row["state"] == "not here"]:
            return Finding("open", f"not here: {', '.join(missing)}", evidence)
        return Finding("done", f"{len(stored)} counts are the paper's", evidence)

    def run(self, folder: Path) -> None:
        chosen = _plan(folder)
        rows = [row for name in BENCHMARKS if name != chosen.config.env.name for row in counts(name)]
        _write(folder / "data.json", [asdict(row) for row in [*_counts(chosen), *rows]])

    def command(self, folder: Path) -> str:
        """What brings the data that the last count did not find."""
        chosen, path = load_plan(folder), folder / "data.json"
        if chosen is None or not path.is_file():
            return ""
        rows = [row for row in _json(path) if row["benchmark"] == chosen.config.env.name]
        return (mend(chosen.config.env.name) or "seedbed doctor") if _number(rows, "not here") else ""


class Settings(Step):
    name = "config"
    title = "whether the settings are the paper's: each against Table 5 and the official launcher"
    done_when = "config_diff.json is what the presets give, with no unexplained difference"
    needs = ("freeze",)

    def check(self, folder: Path) -> Finding:
        path, chosen = folder / "config_diff.json", load_plan(folder)
        if chosen is None or not path.is_file():
            return Finding("open", "nothing is compared yet")
        content = _differences(chosen)
        evidence = {"settings": len(content["settings"]), "unexplained": content["unexplained"], "file": path.name}
        if _json(path) != json.loads(json.dumps(content)):
            return Finding("failed", "config_diff.json is not what the presets give now: compare again", evidence)
        if content["unexplained"]:
            keys = ", ".join(content["unexplained"])
            return Finding(
                "failed", f"unexplained: {keys}; take the preset's value or state a reason in strict.yaml", evidence
            )
        return Finding("done", f"{len(content['settings'])} settings, no unexplained difference", evidence)

    def run(self, folder: Path) -> None:
        chosen = _plan(folder)
        _write(folder / "config_diff.json", _differences(chosen))
        text = table(sides(chosen.config, chosen.reasons), chosen.config)
        replace_file(folder / "config_diff.md", lambda path: path.write_text(text, "utf-8"))


class _Trained(Step):
    """A step that ends with something a model did; ``run`` only says the command."""

    needs: tuple[str, ...] = ("freeze", "data", "config")

    def run(self, folder: Path) -> None:
        raise UserError(f"step {self.name!r} needs the model and a GPU: {self.command(folder)}")


class Vanilla(_Trained):
    name = "vanilla"
    title = "what the model does as it comes"
    done_when = "vanilla.json holds every task of the panel and its episodes give its summary"

    def check(self, folder: Path) -> Finding:
        score = vanilla(_known(folder))
        if score is None:
            return Finding("open", "the model as it comes has not played yet")
        return _scored(score.file, score.result, score.unaligned)

    def command(self, folder: Path) -> str:
        chosen = _known(folder)
        return f"seedbed eval {_word(chosen.config.model.path)} {chosen.options} --out {_word(folder / 'vanilla.json')}"


class Trained(_Trained):
    """GRPO or SEED."""

    def __init__(self, leg: str, title: str, needs: tuple[str, ...]):
        self.name, self.title, self.needs = leg, title, needs
        self.done_when = f"{TRAINED[leg][0]} is a finished train run whose last evaluation holds"

    def check(self, folder: Path) -> Finding:
        leg = trained(_known(folder), self.name)
        if not leg.begun:
            return Finding("open", "there is no train run yet")
        if leg.final is None:
            return Finding("open", f"{leg.done} of {leg.updates} updates are done", {"updates": leg.done})
        return _scored(leg.final.file, leg.final.result, leg.final.unaligned)

    def command(self, folder: Path) -> str:
        return _train(_known(folder), self.name)


class Unseen(_Trained):
    name = "unseen"
    title = "whether it holds on rooms never trained in (ALFWorld)"
    done_when = "unseen/{vanilla,grpo,seed}.json hold every task of alfworld-unseen-134"
    needs = ("vanilla", "grpo", "seed")

    def check(self, folder: Path) -> Finding:
        chosen = _known(folder)
        if chosen.config.env.name != "alfworld":
            finished = vanilla(chosen) and all(trained(chosen, name).final for name in ("grpo", "seed"))
            why = f"the paper tests unseen rooms on ALFWorld only: there is nothing to do on {chosen.config.env.name}"
            return Finding("done" if finished else "open", why if finished else f"{why} but to finish the runs")
        found = {name: unseen(chosen, name) for name in ("vanilla", "grpo", "seed")}
        if missing := [name for name, score in found.items() if score is None]:
            return Finding("open", f"not played yet: {', '.join(missing)}")
        return Finding(
            "done", "all three are played", {s.file: _summary(s.result, s.unaligned) for s in found.values()}
        )

    def command(self, folder: Path) -> str:
        chosen = _known(folder)
        lines = []
        for name in ("vanilla", "grpo", "seed"):
            out = folder / "unseen" / f"{name}.json"
            last = f"u{chosen.config.train.updates:04d}"
            model = chosen.config.model.path if name == "vanilla" else folder / TRAINED[name][0] / "checkpoints" / last
            if not out.is_file():
                options = f"{chosen.options} --panel {UNSEEN} --out {_word(out)}"
                lines.append(f"seedbed eval {_word(model)} {options}")
        return " && ".join(lines)


class Report(Step):
    name = "report"
    title = "what came of each claim: reproduced, partly, not, not attempted"
    done_when = "report.md, report.json and record.json are what the folder gives"
    needs = ("freeze",)

    def check(self, folder: Path) -> Finding:
        chosen = load_plan(folder)
        if chosen is None or not all((folder / name).is_file() for name in FILES):
            return Finding("open", "no report is written yet")
        texts = report(chosen, _todo(folder))
        if stale := [name for name, text in texts.items() if (folder / name).read_text("utf-8") != text]:
            return Finding("failed", f"{', '.join(stale)} is not what the folder gives now: write it again")
        claims = json.loads(texts["record.json"])["claims"]
        tally = {status: _number(claims, status, "status") for status in sorted({c["status"] for c in claims})}
        return Finding("done", ", ".join(f"{n} {status}" for status, n in tally.items()) or "no claims", tally)

    def run(self, folder: Path) -> None:
        write_report(_plan(folder), _todo(folder))


STEPS: tuple[Step, ...] = (
    Freeze(),
    Data(),
    Settings(),
    Vanilla(),
    Trained("grpo", "what rewards alone give, under the same settings", ("freeze", "data", "config")),
    Trained("seed", "what hindsight skills add", ("freeze", "data", "config")),
    Unseen(),
    Report(),
)


def _todo(folder: Path) -> dict[str, str]:
    """The command of every step that is open, the ablations' too; the folder itself is called FOLDER in them."""
    chosen, out = _known(folder), {}
    for step in STEPS:
        if isinstance(step, Data) or (isinstance(step, _Trained) and step.check(folder).state != "done"):
            out[step.name] = step.command(folder)
    if chosen.config.env.name == "alfworld":
        for name in ("without-sft", "without-opd"):
            if trained(chosen, name).final is None:
                out[f"ablation {name}"] = _train(chosen, name)
    place = re.compile(rf"(?<![\w./-]){re.escape(_word(folder))}(?=/)")
    return {name: place.sub("FOLDER", command) for name, command in out.items() if command}


def _train(chosen: Plan, name: str) -> str:
    """The commands that are still to be typed until a train run is finished."""
    folder, (place, overrides) = chosen.folder, TRAINED[name]
    if (folder / place / "manifest.json").is_file():
        return f"seedbed train --resume {_word(folder / place)}"
    words = list(overrides)
    before = []
    if name in ("seed", "without-opd"):
        collect, sft = folder / "seed" / "collect", folder / "seed" / "sft"
        checkpoint = sft / "checkpoints" / f"u{chosen.config.sft.epochs:04d}"
        words.insert(0, f"model.path={_word(checkpoint)}")
        if not checkpoint.is_dir():
            if not (collect / "annotate.json").is_file():
                if not (collect / "manifest.json").is_file():
                    before.append(f"seedbed collect {chosen.options} --out {_word(collect)}")
                before.append(f"seedbed annotate {_word(collect)} --config annotate-glm")
            before.append(f"seedbed sft {_word(collect)} {chosen.options} --out {_word(sft)}")
    rest = " ".join([chosen.options, *words])
    return " && ".join([*before, f"seedbed train {rest} --out {_word(folder / place)}"])


def _known(folder: Path) -> Plan:
    """The plan, or the default one before there is any: nothing is written."""
    found = load_plan(folder)
    return found or plan.unwritten(folder, DEFAULT)


def _counts(chosen: Plan) -> list[Count]:
    """Counts of the chosen benchmark, with what was really collected once it was."""
    rows = counts(chosen.config.env.name, chosen.config)
    if rows and (found := collected(chosen)):
        tasks, trajectories = found
        wanted = (rows[0].paper, rows[1].paper)
        for what, paper, number in zip(("tasks", "trajectories"), wanted, (tasks, trajectories), strict=True):
            state = "same" if number == paper else "differs"
            rows.append(Count(rows[0].benchmark, f"collected {what}", paper, number, state, "paper Table 3"))
    return rows


def _differences(chosen: Plan) -> dict[str, Any]:
    """All settings beside both sides; and what GRPO's run sets otherwise than SEED's: the method and nothing else."""
    lines = sides(chosen.config, chosen.reasons)
    grpo = chosen.expected(*TRAINED["grpo"][1])
    return {
        "presets": list(chosen.presets),
        "model": chosen.model,
        "unexplained": [line.key for line in lines if line.unexplained],
        "settings": [asdict(line) for line in lines],
        "grpo_beside_seed": departures(grpo, chosen.config),
    }


def _small_files(chosen: Plan) -> dict[str, str] | None:
    """Hashes of the model's files but its weights, None if the folder is not here. The weights take minutes."""
    try:
        folder = resolve(chosen.config.model.path)
    except UserError:
        return None
    return folder_hashes(folder, lambda name: not name.endswith(".safetensors"))


def _scored(file: str, result: dict[str, Any], unaligned: Sequence[str]) -> Finding:
    summary = _summary(result, unaligned)
    apart = f"; could not be aligned: {'; '.join(unaligned)}" if unaligned else ""
    return Finding("done", f"micro {summary['micro']}, macro {summary['macro']}{apart}", {"file": file, **summary})


def _summary(result: dict[str, Any], unaligned: Sequence[str]) -> dict[str, Any]:
    summary = result["summary"]
    shares = {kind: summary[kind]["value"] for kind in ("micro", "macro")}
    percent = {kind: None if value is None else round(100 * value, 1) for kind, value in shares.items()}
    return {**percent, "n": summary["n_episodes"], "unaligned": list(unaligned)}


def _number(rows: Sequence[dict[str, Any]], value: str, key: str = "state") -> int:
    return sum(row[key] == value for row in rows)


def _word(text: str | Path) -> str:
    return shlex.quote(str(text))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UserError(f"{path.name} is not JSON ({error}): run its step again") from None


def _write(path: Path, value: Any) -> None:
    replace_file(path, lambda part: part.write_text(json.dumps(value, indent=1) + "\n", "utf-8"))

"""``seedbed bench webshop``: what does a shop of a given size take to index, to search and to play in?"""

from __future__ import annotations

import gzip
import json
import os
import platform
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn, TimeRemainingColumn

from seedbed.commands.alone import alone
from seedbed.envs.webshop.data import find_files
from seedbed.envs.webshop.synthetic import invented_base, invented_instructions, write_catalogue
from seedbed.types import UserError

_STAGES = "seedbed.commands.bench_webshop_stages"
_BYTES = 9_000  #: on disk for each product: the files and the shop made of them
_out = Console(highlight=False, soft_wrap=True)


def webshop(
    products: Annotated[
        int | None, typer.Option(min=1_000, help="size of a made-up catalogue; default: the 1,000 products at hand")
    ] = None,
    queries: Annotated[Path | None, typer.Option(help="JSON list of queries; default: goals of the shop")] = None,
    searches: Annotated[int, typer.Option(min=1, help="queries timed")] = 500,
    checked: Annotated[int, typer.Option(min=0, help="queries compared with BM25 worked out in full")] = 20,
    episodes: Annotated[int, typer.Option(min=1, help="random episodes, at most 15 turns each")] = 300,
    seed: Annotated[int, typer.Option(help="of catalogue, queries and episodes")] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="leave the catalogue for the next time")] = False,
    out: Annotated[Path | None, typer.Option(help="write the figures as JSON")] = None,
) -> None:
    """Index a catalogue as a user's own, then search it and play in it; each part in a process of its own.

    A made-up catalogue has the published file form, phrases of the products at hand in new combinations and invented
    words; making it is not counted. Exits with status 1 if a ranking is not the one that plain BM25 gives.

    1.18 million products need 11 GB of disk in SEEDBED_CACHE. Example: seedbed bench webshop --products 1180000
    """
    asked = _read_queries(queries) if queries else None
    folder = Path(os.environ.get("SEEDBED_CACHE") or Path.home() / ".cache" / "seedbed") / "webshop-bench"
    folder = folder / f"{products or 'own'}-{seed}"
    catalogue = "full" if products else "small"
    facts: dict[str, Any] = {"products": products or 1_000, "seed": seed, "cpu": platform.processor()}
    facts |= {"date": f"{datetime.now(UTC):%Y-%m-%d}", "python": platform.python_version()}
    try:
        variables = {"SEEDBED_CACHE": str(folder / "cache")}
        if products:
            facts["made"] = _made(folder, products, seed)
            variables["WEBSHOP_DATA"] = str(folder)
        shutil.rmtree(folder / "cache", ignore_errors=True)
        facts["read"] = _stage("read", {"catalogue": catalogue}, variables)
        facts["build"] = _stage("build", {"catalogue": catalogue}, variables)
        use = {"catalogue": catalogue, "queries": asked, "searches": searches, "episodes": episodes, "seed": seed}
        facts["use"] = _stage("use", use, variables)
        if checked:
            chosen = Random(seed).sample(facts["use"]["queries"], min(checked, len(facts["use"]["queries"])))
            facts["check"] = _stage("check", {"catalogue": catalogue, "queries": chosen}, variables)
    finally:
        shutil.rmtree(folder / "cache" if keep else folder, ignore_errors=True)
    facts["use"]["queries"] = len(facts["use"]["queries"])
    if out:
        out.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    if checked and facts["check"]["equal"] != facts["check"]["queries"]:
        raise typer.Exit(1)


def _made(folder: Path, products: int, seed: int) -> dict[str, Any]:
    """The files of a catalogue; those of an earlier run that kept them, if they are there."""
    done = folder / "made.json"
    if done.exists():
        return json.loads(done.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(folder).free) < products * _BYTES:
        raise UserError(
            f"{products:,} products need {products * _BYTES / 1e9:.1f} GB in {folder}, where {free / 1e9:.1f} GB are "
            "free: set SEEDBED_CACHE to a larger disk"
        )
    try:
        files = find_files("small")
        base, (attributes, human), source = list(files.records()), files.instructions(), str(files.items.name)
    except UserError:
        base = invented_base()
        attributes, human, source = invented_instructions(base), {}, "invented words"
    clock, cpu = time.perf_counter(), time.process_time()
    with _bar() as progress:
        bar = progress.add_task(f"making {products:,} products", total=products)
        for number in write_catalogue(folder, products, base, attributes, human, seed):
            if number % 1000 == 0 or number == products:
                progress.update(bar, completed=number)
    made = {"from": source, "cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - clock}
    made["bytes"] = sum(path.stat().st_size for path in folder.glob("items_*"))
    done.write_text(json.dumps(made))
    return made


def _stage(name: str, arguments: dict[str, Any], variables: dict[str, str]) -> dict[str, Any]:
    """Runs a part alone and prints what it says of itself."""
    with _bar() as progress:
        progress.add_task(name, total=None)
        told = alone(f"{_STAGES}:{name}", arguments, variables)
    _out.print(f"{name:>6}: {told.pop('says')}")
    return told


def _bar() -> Progress:
    columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))


def _read_queries(path: Path) -> list[str]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
            listed = json.load(stream)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"--queries {path} cannot be read as JSON: {error}") from error
    if not isinstance(listed, list) or not listed or not all(isinstance(text, str) for text in listed):
        raise UserError(f"--queries {path} must hold a JSON list of texts")
    return listed

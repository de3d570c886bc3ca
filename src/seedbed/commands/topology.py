"""``seedbed topology``: who did what in some runs, from their records alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from seedbed.types import UserError


def topology(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or a demo as a whole.")],
    svg: Annotated[Path | None, typer.Option(help="draw it into this file")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="write nodes, edges and evidence into it")] = None,
) -> None:
    """Show which model played which role and what was made of what; only what the runs recorded.

    Examples: seedbed topology runs/demo; seedbed topology runs/collect runs/sft runs/seed --svg topology.svg
    """
    from seedbed.track.store import replace_file  # noqa: PLC0415
    from seedbed.track.topology import topology as graph_of  # noqa: PLC0415
    from seedbed.view.text import visible  # noqa: PLC0415
    from seedbed.view.topology_svg import sentences, svg_file  # noqa: PLC0415

    graph = graph_of(runs)
    if not graph.edges:
        raise UserError(f"{', '.join(map(str, runs))} record no relation, so there is nothing to show")
    if as_json:
        text = json.dumps(graph.as_json(), indent=1) + "\n"
        replace_file(as_json, lambda path: path.write_text(text, "utf-8"))
    if svg:
        drawing = svg_file(graph)
        replace_file(svg, lambda path: path.write_text(drawing, "utf-8"))
    if svg or as_json:
        return
    for words, edge in zip(sentences(graph), graph.edges, strict=True):
        evidence = "; ".join(f"{item.file}: {item.key}" for item in edge.evidence)
        typer.echo(visible(f"{words}   [{evidence}]"))

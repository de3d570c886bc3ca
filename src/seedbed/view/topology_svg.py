"""How does ``track.topology``'s graph look? Boxes by kind from left to right, a labelled line a relation, plain SVG.

Kinds are told apart by shape and by colour (the page's four, safe for the common colour-vision deficiencies), in light
and in dark. No script, no reference to anything: the same text stands in a page and in a file of its own. Every text is
escaped, and what would act on a screen is shown instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from markupsafe import Markup

from seedbed.track.topology import Edge, Graph, Node
from seedbed.view.layers import Layout, arrange
from seedbed.view.text import visible

Point = tuple[float, float]

_WIDE, _HIGH, _GAP, _ROW, _BEND = 140, 38, 96, 58, 24  #: box, space between layers, height of a row and of a bend
_LEFT, _TOP, _LETTER = 20, 64, 5.3  #: margins; width of a letter of a label
_STYLE = Markup(
    ".topology { --t-page: #fff; --t-ink: #1b1f24; --t-quiet: #667080; --t-model: #0072b2; --t-role: #c75000; "
    "--t-artefact: #00835f; --t-data: #9a4f85; max-width: none; font: 11px system-ui, sans-serif; "
    "background: var(--t-page); }\n"
    "@media (prefers-color-scheme: dark) { .topology { --t-page: #14171a; --t-ink: #e4e8ec; --t-quiet: #97a2af; "
    "--t-model: #56b4e9; --t-role: #f0913f; --t-artefact: #2fc29a; --t-data: #d69ac4; } }\n"
    ".topology text { fill: var(--t-ink); } .topology .small { fill: var(--t-quiet); font-size: 10px; }\n"
    ".topology .relation { font-size: 10px; stroke: var(--t-page); stroke-width: 3px; paint-order: stroke; }\n"
    ".topology polyline, .topology rect { fill: var(--t-page); stroke-width: 1.8; }\n"
    ".topology .model { stroke: var(--t-model); } .topology .role { stroke: var(--t-role); }\n"
    ".topology .artefact { stroke: var(--t-artefact); } .topology .data { stroke: var(--t-data); }\n"
    ".topology .kept { stroke-dasharray: 5 3; }\n"
    ".topology .line { fill: none; stroke: var(--t-quiet); stroke-width: 1.1; }\n"
    ".topology .line.back { stroke-dasharray: 2 3; }\n"
    ".topology .head { fill: var(--t-quiet); stroke: none; }"
)


def svg_file(graph: Graph) -> str:
    """A file of its own; see ``draw``."""
    return str(draw(graph)).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def draw(graph: Graph) -> Markup:
    """The element ``svg``; an empty string for a graph without a relation."""
    if not graph.edges:
        return Markup("")
    graph = condensed(graph)
    links = [(edge.source, edge.target) for edge in graph.edges]
    later = frozenset((edge.source, edge.target) for edge in graph.edges if edge.relation == "snapshot")
    layout = arrange([node.id for node in graph.nodes], links, later, _ROW, _BEND)
    lines, bottom = _lines(graph, layout)
    boxes = [_box(node, *_corner(layout, node.id)) for node in graph.nodes]
    width = max(_corner(layout, node.id)[0] for node in graph.nodes) + _WIDE + _LEFT
    width, height = max(width, 4 * (_WIDE + 20) + 2 * _LEFT), bottom + 16
    form = Markup(
        '<svg class="topology" role="img" aria-labelledby="topology-title" viewBox="0 0 {0} {1}" width="{0}" '
        'height="{1}"><title id="topology-title">Who did what: models, roles, artefacts and how they are related'
        "</title><desc>{2}</desc><style>{3}</style>{4}</svg>"
    )
    body = Markup("").join([_legend(), *lines, *boxes])
    return Markup(visible(str(form.format(_r(width), _r(height), ". ".join(sentences(graph)), _STYLE, body))))


def sentences(graph: Graph) -> list[str]:
    """Every relation in words."""
    names = {node.id: f"{node.label} ({run})" if (run := node.facts.get("run")) else node.label for node in graph.nodes}
    return [f"{names[edge.source]} {edge.relation} {names[edge.target]}" for edge in graph.edges]


def condensed(graph: Graph) -> Graph:
    """What is drawn: of the checkpoints that nothing else goes on from only the newest, and evaluations that differ in
    nothing but their settings as one box.
    """
    uses: dict[str, int] = defaultdict(int)
    for edge in graph.edges:
        uses[edge.source] += 1
        uses[edge.target] += 1
    nodes = {node.id: node for node in graph.nodes}
    gone: dict[str, str] = {}  # node -> the one drawn in its place, if any
    for edge in graph.edges:
        if edge.relation == "holds" and uses[edge.target] == 1 and "newest" not in nodes[edge.source].facts:
            gone |= {edge.source: "", edge.target: ""}
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for node in graph.nodes:
        if node.label == "evaluation":
            ends = [(e.source, e.relation) for e in graph.edges if e.target == node.id]
            ends += [(e.relation, e.target) for e in graph.edges if e.source == node.id]
            alike[tuple(sorted(ends))].append(node.id)
    for first, *others in alike.values():
        gone |= dict.fromkeys(others, first)
        if others:
            nodes[first] = Node(first, "artefact", f"{len(others) + 1} evaluations", nodes[first].facts)
    kept = tuple(nodes[node.id] for node in graph.nodes if node.id not in gone)
    return Graph(kept, tuple(edge for edge in graph.edges if edge.source not in gone and edge.target not in gone))


def _corner(layout: Layout, node: str) -> Point:
    layer, y = layout.places[node]
    return _LEFT + layer * (_WIDE + _GAP), _TOP + y - _HIGH / 2


def _lines(graph: Graph, layout: Layout) -> tuple[list[Markup], float]:
    """Lines with their labels, and the lowest y in use."""
    forward = [edge for edge in graph.edges if (edge.source, edge.target) not in layout.feedback]
    leave, enter = _ports(forward, layout)
    drawn, labels, taken = [], [], []
    for edge in forward:
        source, target = _corner(layout, edge.source), _corner(layout, edge.target)
        points = [(source[0] + _WIDE, source[1] + _HIGH / 2 + leave[edge])]
        for layer, y in layout.bends[edge.source, edge.target]:
            x = _LEFT + layer * (_WIDE + _GAP)
            points += [(x, _TOP + y), (x + _WIDE, _TOP + y)]
        points.append((target[0], target[1] + _HIGH / 2 + enter[edge]))
        drawn.append(_line("line", points))
        labels.append(_label(edge.relation, points[-2], points[-1], taken))
    bottom = max(_corner(layout, node.id)[1] + _HIGH for node in graph.nodes)
    bottom = max([bottom, *(_TOP + y for bends in layout.bends.values() for _, y in bends)])
    lanes: dict[str, float] = {}
    for edge in graph.edges:
        if (edge.source, edge.target) in layout.feedback:
            first = edge.source not in lanes
            lane = lanes.setdefault(edge.source, bottom + 18 + 18 * len(lanes))
            (sx, sy), (tx, ty) = _corner(layout, edge.source), _corner(layout, edge.target)
            a, b = sx - 10 - 4 * (len(lanes) % 4), tx + _WIDE + 10 + 4 * (len(lanes) % 4)
            down, up = sy + _HIGH - 7, ty + _HIGH - 7
            drawn.append(_line("line back", [(sx, down), (a, down), (a, lane), (b, lane), (b, up), (tx + _WIDE, up)]))
            if first:
                labels.append(_label(edge.relation, (a, lane), (a - 100, lane), taken))
    return [*drawn, *labels], max([bottom, *lanes.values()])


def _ports(edges: Sequence[Edge], layout: Layout) -> tuple[dict[Edge, float], dict[Edge, float]]:
    """How far from the middle of its box a line leaves and enters: in the order of where it comes from or goes."""
    leave: dict[Edge, float] = {}
    enter: dict[Edge, float] = {}
    for out, end, turn in ((leave, "source", 0), (enter, "target", -1)):
        by_box: dict[str, list[tuple[float, int, Edge]]] = defaultdict(list)
        for i, edge in enumerate(edges):
            bends = layout.bends[edge.source, edge.target]
            other = edge.target if end == "source" else edge.source
            by_box[getattr(edge, end)].append((bends[turn][1] if bends else layout.places[other][1], i, edge))
        for ends in by_box.values():
            step = min(7.0, (_HIGH - 12) / len(ends))
            out |= {
                edge: (k - (len(ends) - 1) / 2) * step
                for k, (_, _, edge) in enumerate(sorted(ends, key=lambda end: end[:2]))
            }
    return leave, enter


def _label(words: str, a: Point, b: Point, taken: list[tuple[float, float, float]]) -> Markup:
    """Words at the place of a line where no other label is yet, as near to its middle as can be."""
    half = len(words) * _LETTER / 2
    spots = [(a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]) + 3) for t in (0.5, 0.42, 0.58, 0.36, 0.64)]
    spots += [(spots[0][0], spots[0][1] + down) for down in (-11, 11)]
    free = [p for p in spots if all(abs(p[1] - y) > 10 or abs(p[0] - x) > half + h + 2 for x, y, h in taken)]
    x, y = free[0] if free else spots[0]
    taken.append((x, y, half))
    return _text("relation", x, y, words, "middle")


def _line(css: str, points: Sequence[Point]) -> Markup:
    (x1, _), (x, y) = points[-2:]
    d = -6 if x >= x1 else 6  # lines end from the left, or from the right where they run back
    head = _shape("head", [(x, y), (x + d, y - 3.5), (x + d, y + 3.5), (x, y)])
    return _shape(css, points) + head


def _box(node: Node, x: float, y: float) -> Markup:
    facts = "".join(f"\n{key}: {value}" for key, value in node.facts.items())
    title = Markup("<title>{}{}</title>").format(node.label, facts)
    lines = [
        _text("name", x + _WIDE / 2, y + 16, _short(node.label, 21), "middle"),
        _text("small", x + _WIDE / 2, y + 30, _short(_second(node), 25), "middle"),
    ]
    return Markup("<g>{}{}{}</g>").format(title, _outline(node, x, y), Markup("").join(lines))


def _second(node: Node) -> str:
    """The second line of a box."""
    facts = node.facts
    run = str(facts.get("run", ""))
    if node.kind == "role" and facts["weights"] in ("updated", "not updated", "frozen"):
        return f"{run}: weights {facts['weights']}"
    if node.label == "evaluation":
        return " ".join(str(facts[key]) for key in ("of", "run") if facts.get(key) not in (None, "."))
    return str(facts.get("what") or facts.get("hash", "")[:12] or run or "told by its content")


def _outline(node: Node, x: float, y: float) -> Markup:
    right, low, cut = x + _WIDE, y + _HIGH, 9.0
    if node.kind == "role":  # a hexagon
        mid = y + _HIGH / 2
        corners = [(x, mid), (x + cut, y), (right - cut, y), (right, mid), (right - cut, low), (x + cut, low), (x, mid)]
        return _shape("role" if node.facts["weights"] == "updated" else "role kept", corners)
    if node.kind == "artefact":  # a sheet with a folded corner
        sheet = [(x, y), (right - cut, y), (right, y + cut), (right, low), (x, low), (x, y)]
        fold = [(right - cut, y), (right - cut, y + cut), (right, y + cut)]
        return _shape("artefact", sheet) + _shape("artefact", fold)
    if node.kind == "model":  # a double frame
        return _frame("model", x, y, 0, 0) + _frame("model", x + 3, y + 3, 3, 0)
    return _frame("data", x, y, 0, _HIGH / 2)


def _legend() -> Markup:
    """One box a kind, above all others."""
    words = {"model": "by its content", "role": "dashed: not updated", "artefact": "made by a run", "data": "given"}
    boxes = []
    for i, (kind, said) in enumerate(words.items()):
        x = _LEFT + i * (_WIDE + 20)
        texts = _text("name", x + _WIDE / 2, 20, kind, "middle") + _text("small", x + _WIDE / 2, 34, said, "middle")
        boxes.append(_outline(Node("", kind, kind, {"weights": "not updated"}), x, 4) + texts)
    return Markup('<g class="legend">{}</g>').format(Markup("").join(boxes))


def _frame(css: str, x: float, y: float, inset: float, round_by: float) -> Markup:
    form = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="{}"/>')
    return form.format(css, _r(x), _r(y), _r(_WIDE - 2 * inset), _r(_HIGH - 2 * inset), _r(round_by))


def _shape(css: str, points: Sequence[Point]) -> Markup:
    form = Markup('<polyline class="{}" points="{}"/>')
    return form.format(css, " ".join(f"{_r(x)},{_r(y)}" for x, y in points))


def _text(css: str, x: float, y: float, words: str, anchor: str) -> Markup:
    form = Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>')
    return form.format(css, _r(x), _r(y), anchor, words)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _r(value: float) -> str:
    return f"{value:.1f}"

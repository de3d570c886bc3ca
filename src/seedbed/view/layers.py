"""Where does a box of a graph stand? Layers from left to right by longest path, order within a layer by neighbours.

A small form of the usual layered drawing (Sugiyama, Tagawa and Toda 1981): edges that close a circle are set aside, an
edge over several layers gets a bend in each, every bend and box moves towards the mean of its neighbours. All choices
are decided by the order of the input, so the same graph is always drawn alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

Link = tuple[str, str]
_SWEEPS = 12


@dataclass(frozen=True, slots=True)
class Layout:
    """``places``: (layer, y of the middle) by node, y from 0. ``bends``: the same for each layer a link passes over.

    ``feedback``: links that run against the layers.
    """

    places: Mapping[str, tuple[int, float]]
    bends: Mapping[Link, Sequence[tuple[int, float]]]
    feedback: frozenset[Link]


def arrange(nodes: Sequence[str], links: Sequence[Link], back: frozenset[Link], row: float, bend: float) -> Layout:
    """Links in ``back`` run against the layers in any case. ``row`` and ``bend`` are the heights that a box and a
    passing link take.
    """
    back = back | _closing(nodes, [link for link in links if link not in back])
    layer = _layers(nodes, [link for link in links if link not in back])
    chains: dict[Link, list[str]] = {}
    columns: dict[int, list[str]] = defaultdict(list)
    for node in nodes:
        columns[layer[node]].append(node)
    room = dict.fromkeys(nodes, row)
    beside: dict[str, list[str]] = defaultdict(list)
    for source, target in dict.fromkeys(links):
        if (source, target) in back:
            continue
        chain = [source, *(f"{source}\0{target}\0{i}" for i in range(layer[source] + 1, layer[target])), target]
        for name, at in zip(chain[1:-1], range(layer[source] + 1, layer[target]), strict=True):
            columns[at].append(name)
            room[name] = bend
        chains[source, target] = chain
        for a, b in pairwise(chain):
            beside[a].append(b)
            beside[b].append(a)
    y = _heights(columns, beside, room)
    low = min((y[node] - row / 2 for node in nodes), default=0.0)
    low = min([low, *(y[name] for chain in chains.values() for name in chain[1:-1])])
    places = {node: (layer[node], y[node] - low) for node in nodes}
    bends = {
        link: [(layer[link[0]] + i, y[name] - low) for i, name in enumerate(chain[1:-1], 1)]
        for link, chain in chains.items()
    }
    return Layout(places, bends, back)


def _closing(nodes: Sequence[str], links: Sequence[Link]) -> frozenset[Link]:
    """Links without which no circle is left: those that lead back on the way of a depth-first walk."""
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in links:
        after[source].append(target)
    entered = {target for _, target in links}
    done: set[str] = set()
    found: set[Link] = set()
    for root in sorted(nodes, key=lambda node: node in entered):
        way, left = [root], [iter(after[root] if root not in done else ())]
        while left:
            node = next(left[-1], None)
            if node is None:
                done.add(way.pop())
                left.pop()
            elif node in way:
                found.add((way[-1], node))
            elif node not in done:
                way.append(node)
                left.append(iter(after[node]))
    return frozenset(found)


def _layers(nodes: Sequence[str], links: Sequence[Link]) -> dict[str, int]:
    """Longest path from a start; a start itself stands right before what it leads to."""
    before: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in links:
        before[target].append(source)
    layer: dict[str, int] = {}
    for node in TopologicalSorter(before).static_order():
        layer[node] = max((layer[source] + 1 for source in before[node]), default=0)
    for node in nodes:
        after = [layer[target] for source, target in links if source == node]
        if not before[node] and after:
            layer[node] = min(after) - 1
    return layer


def _heights(
    columns: Mapping[int, list[str]], beside: Mapping[str, Sequence[str]], room: Mapping[str, float]
) -> dict[str, float]:
    y = {}
    for column in columns.values():
        y |= _spaced(column, dict.fromkeys(column, 0.0), room)
    order = sorted(columns)
    for sweep in range(_SWEEPS):
        for at in order if sweep % 2 == 0 else reversed(order):
            column = columns[at]
            wanted = {n: sum(y[m] for m in beside[n]) / len(beside[n]) if beside[n] else y[n] for n in column}
            if sweep < _SWEEPS // 2:  # first who stands above whom, then only where
                column.sort(key=lambda n, wanted=wanted: wanted[n])
            y |= _spaced(column, wanted, room)
    return y


def _spaced(column: Sequence[str], wanted: Mapping[str, float], room: Mapping[str, float]) -> dict[str, float]:
    """As near to the wanted heights as order and room allow: neighbours that would overlap move as one block."""
    blocks: list[tuple[float, list[str]]] = []  # (height of the first, members)
    for name in column:
        block = (wanted[name], [name])
        while blocks and blocks[-1][0] + _span(blocks[-1][1] + block[1][:1], room) > block[0]:
            block = _merged(blocks.pop()[1] + block[1], wanted, room)
        blocks.append(block)
    out: dict[str, float] = {}
    for first, names in blocks:
        for i, name in enumerate(names):
            out[name] = first + _span(names[: i + 1], room)
    return out


def _merged(names: list[str], wanted: Mapping[str, float], room: Mapping[str, float]) -> tuple[float, list[str]]:
    firsts = [wanted[name] - _span(names[: i + 1], room) for i, name in enumerate(names)]
    return sum(firsts) / len(firsts), names


def _span(names: Sequence[str], room: Mapping[str, float]) -> float:
    """From the middle of the first to the middle of the last."""
    return sum(room[name] for name in names) - (room[names[0]] + room[names[-1]]) / 2

"""The parts of ``seedbed bench webshop``, each run in a process of its own. Times in seconds, sizes in bytes."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from seedbed.commands.alone import memory
from seedbed.commands.bench_memory import random_episode
from seedbed.envs.webshop.analysis import terms, words
from seedbed.envs.webshop.data import find_files
from seedbed.envs.webshop.env import WebShop
from seedbed.envs.webshop.index import K1, B, coded_length, length_code
from seedbed.envs.webshop.pages import RESULTS
from seedbed.envs.webshop.shop import Shop
from seedbed.evaluate.players import player

TURNS = 15  #: of an episode at most
_MIB = 1 << 20


class Stopwatch:
    """CPU and wall seconds since it was made."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def read(self) -> dict[str, float]:
        return {"cpu_s": time.process_time() - self._cpu, "wall_s": time.perf_counter() - self._wall}


def read(catalogue: str) -> dict[str, Any]:
    """Decoding the item file, which building does, too."""
    files, watch = find_files(catalogue), Stopwatch()
    records = sum(1 for _ in files.records())
    told = {"records": records, "bytes": files.items.stat().st_size, **watch.read()}
    size = f"{told['bytes'] / 1e6:,.1f} MB"
    return told | {"says": f"{records:,} records of {size} in {told['cpu_s']:.1f} s of CPU"}


def build(catalogue: str) -> dict[str, Any]:
    """From the published files to a shop that is ready, as a user's first run does it."""
    watch = Stopwatch()
    shop = _shop(catalogue)
    told = {**watch.read(), "memory": memory(), "products": len(shop.products), "terms": len(shop.index.vocabulary)}
    told |= {"postings": len(shop.index.documents), "goals": {kind: len(made) for kind, made in shop.goals.items()}}
    folder = Path(os.environ["SEEDBED_CACHE"])
    sizes = Counter()
    for path in folder.rglob("*.*"):
        sizes["products" if path.name == "products.jsonl" else "index"] += path.stat().st_size
    told["disk"] = dict(sizes)
    return told | {
        "says": f"{told['products']:,} products, {told['terms']:,} terms, {told['postings']:,} postings in "
        f"{told['cpu_s']:.1f} s of CPU ({told['wall_s']:.1f} s), peak {told['memory']['peak'] / _MIB:,.0f} MiB; "
        f"on disk {sizes['index'] / 1e6:,.0f} MB and {sizes['products'] / 1e6:,.0f} MB of products"
    }


def use(catalogue: str, queries: list[str] | None, searches: int, episodes: int, seed: int) -> dict[str, Any]:
    """Opening the shop that was built, searching it (the found products read), and playing in it."""
    watch, rng = Stopwatch(), Random(seed)
    environment = WebShop(catalogue=catalogue)
    shop = environment.shop
    opened = {**watch.read(), "memory": memory()}
    goals = shop.goals["synthetic"]
    have = queries or [
        goals.goal(n, shop.products).text for n in rng.sample(range(len(goals)), min(searches, len(goals)))
    ]
    asked = rng.sample(have, min(searches, len(have)))
    wall, cpu = [], []
    for query in asked:
        clock, used = time.perf_counter(), time.thread_time()
        shop.search(query, RESULTS)
        cpu.append(time.thread_time() - used)
        wall.append(time.perf_counter() - clock)
    search = {
        name: {f"p{p}": float(np.percentile(values, p)) for p in (50, 95)}
        for name, values in (("cpu_s", cpu), ("wall_s", wall))
    }
    tasks, plays = environment.tasks("train"), player("random", environment, "webshop")
    played = [random_episode(environment, tasks[rng.randrange(len(tasks))], plays, TURNS, rng) for _ in range(episodes)]
    rate = sum(episode.turns for episode in played) / sum(episode.cpu_s for episode in played)
    told = {"opened": opened, "queries": asked, "search": search, "steps_per_cpu_s": rate, "memory": memory()}
    cpu_ms, wall_ms = ([1e3 * value for value in search[clock].values()] for clock in ("cpu_s", "wall_s"))
    return told | {
        "says": f"opened in {opened['cpu_s']:.1f} s of CPU ({opened['wall_s']:.1f} s), {_parts(opened['memory'])}; "
        f"{len(asked)} searches, median {cpu_ms[0]:.1f} and p95 {cpu_ms[1]:.1f} ms of CPU "
        f"({wall_ms[0]:.1f} and {wall_ms[1]:.1f} ms); "
        f"{rate:,.0f} steps per CPU second in {episodes} random episodes; then {_parts(told['memory'])}"
    }


def check(catalogue: str, queries: list[str]) -> dict[str, Any]:
    """Rankings against BM25 worked out over all documents, whose texts are read and counted anew."""
    shop = _shop(catalogue)
    expected = ranked_in_full(shop, queries, RESULTS)
    equal = sum(shop.index.search(query, RESULTS) == best for query, best in zip(queries, expected, strict=True))
    return {"queries": len(queries), "equal": equal, "says": f"{equal} of {len(queries)} rankings equal plain BM25"}


def ranked_in_full(shop: Shop, queries: Sequence[str], limit: int) -> list[list[int]]:
    """The best documents of each query by BM25 in its plain form: no index, every document scored."""
    numbers = {term: n for n, term in enumerate(dict.fromkeys(t for query in queries for t in terms(query)))}
    times_VD = np.zeros((len(numbers), len(shop.products)), np.uint16)
    length_D = np.zeros(len(shop.products), np.int64)
    known: dict[str, list[int]] = {}  # word -> numbers of its terms; -1: a term nobody asks for
    for document, product in enumerate(shop.products):
        for word in words(product.search_text):
            if word not in known:
                known[word] = [numbers.get(term, -1) for term in terms(word)]
            for number in known[word]:
                length_D[document] += 1
                if number >= 0:
                    times_VD[number, document] += 1
    coded_D = np.array([coded_length(length_code(n)) for n in length_D.tolist()], np.float32)
    filled = int((length_D > 0).sum())
    average = np.float32(max(length_D.sum(), 1) / max(filled, 1))
    norm_D = (1 / (K1 * ((1 - B) + B * coded_D / average))).astype(np.float32)
    ids = [product.asin for product in shop.products]
    found = []
    for query in queries:
        score_D = np.zeros(len(shop.products))
        for term, asked in Counter(terms(query)).items():
            times_D = times_VD[numbers[term]].astype(np.float32)
            have = int((times_D > 0).sum())
            weight = np.float32(asked) * np.float32(np.log(1 + (filled - have + 0.5) / (have + 0.5)))
            score_D += weight - weight / (1 + times_D * norm_D)
        score_D = score_D.astype(np.float32)
        hits = np.flatnonzero(score_D > 0).tolist()
        found.append(sorted(hits, key=lambda n, score_D=score_D: (-score_D[n], ids[n]))[:limit])
    return found


def _shop(catalogue: str) -> Shop:
    environment = WebShop(catalogue=catalogue)
    environment.prepare([])
    return environment.shop


def _parts(used: dict[str, int]) -> str:
    return f"{used['resident'] / _MIB:,.0f} MiB ({used['private'] / _MIB:,.0f} without mapped files)"

"""What does a whole shop consist of, and how is a large one kept on disk?

Products, prices, search index and both kinds of goals are pure functions of the data files. A small shop is made in
memory in under a second; one whose item file is over ``ON_DISK`` bytes is made once into ``SEEDBED_CACHE`` (default
``~/.cache/seedbed``) and mapped from there.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random

import numpy as np

from seedbed.envs.webshop.catalogue import Product, draw_prices, read_products
from seedbed.envs.webshop.data import CATALOGUES, ShopFiles
from seedbed.envs.webshop.goals import PRICE_SEED, Goals, Source, sources_of
from seedbed.envs.webshop.index import Index
from seedbed.envs.webshop.order import in_published_order
from seedbed.types import UserError

ON_DISK = 64 << 20
_FORMAT = "2"  #: raise when what is stored changes


@dataclass(frozen=True, slots=True)
class Shop:
    """Everything that is the same for all visits. Never changes, so threads and episodes share it."""

    products: Sequence[Product]
    prices_D: np.ndarray  #: float64
    goals: dict[str, Goals]  #: "synthetic" and "human"
    index: Index

    def search(self, query: str, limit: int) -> list[Product]:
        return [self.products[number] for number in self.index.search(query, limit)]


@cache
def open_shop(files: ShopFiles) -> Shop:
    """Raises ``UserError`` for damaged files, or a small catalogue of another size than published."""
    if files.items.stat().st_size > ON_DISK:
        return load_shop(stored_shop(files))
    noted = _Noted()
    records = files.records()
    if files.catalogue == "small":
        records = in_published_order(records, files.items)
    products = list(noted.watch(read_products(records, *files.instructions())))
    wanted = CATALOGUES[files.catalogue][1]
    if files.catalogue == "small" and len(products) != wanted:
        raise UserError(f"{files.items} holds {len(products)} products, not {wanted}; copy it again")
    index = Index.build((product.asin, product.search_text) for product in products)
    return Shop(products, *noted.drawn(), index)


class _Noted:
    """What prices and goals are drawn from, noted while products pass by."""

    def __init__(self) -> None:
        self.ranges: list[tuple[float, ...]] = []
        self.sources: dict[str, list[Source]] = {"synthetic": [], "human": []}

    def watch(self, products: Iterable[Product]) -> Iterator[Product]:
        for product in products:
            self.ranges.append(product.prices)
            for kind, sources in self.sources.items():
                sources += sources_of(product, human=kind == "human")
            yield product

    def drawn(self) -> tuple[np.ndarray, dict[str, Goals]]:
        """Prices and both kinds of goals; each kind follows the prices in the stream of draws."""
        random = Random(PRICE_SEED)
        prices = draw_prices(self.ranges, random)
        after_prices = random.getstate()
        goals = {}
        for kind, sources in self.sources.items():
            random.setstate(after_prices)
            goals[kind] = Goals.draw(sources, prices, random, human=kind == "human")
        return np.array(prices), goals


class StoredProducts(Sequence[Product]):
    """Products in one file, read when asked for."""

    def __init__(self, directory: Path) -> None:
        self._offsets = np.load(directory / "offsets.npy")
        self._bytes = np.memmap(directory / "products.jsonl", np.uint8, mode="r")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> Product:
        if not 0 <= number < len(self):
            raise IndexError(number)
        line = self._bytes[self._offsets[number] : self._offsets[number + 1]].tobytes()
        return _product(json.loads(line))

    @staticmethod
    def write(products: Iterable[Product], directory: Path) -> Iterator[Product]:
        """Writes products as they pass through."""
        offsets = array("q", [0])
        with (directory / "products.jsonl").open("wb") as file:
            for product in products:
                line = json.dumps([getattr(product, f.name) for f in fields(product)]).encode() + b"\n"
                file.write(line)
                offsets.append(offsets[-1] + len(line))
                yield product
        np.save(directory / "offsets.npy", np.frombuffer(offsets, np.int64))


def _product(row: list) -> Product:
    values = dict(zip((f.name for f in fields(Product)), row, strict=True))
    for name in ("features", "prices", "attributes", "instruction_attributes"):
        values[name] = tuple(values[name])
    values["options"] = {name: tuple(options) for name, options in values["options"].items()}
    values["human"] = tuple((text, tuple(asked), tuple(chosen)) for text, asked, chosen in values["human"])
    return Product(**values)


def stored_shop(files: ShopFiles) -> Path:
    """The directory of a shop on disk, made if it is not there yet: complete or absent."""
    root = Path(os.environ.get("SEEDBED_CACHE") or Path.home() / ".cache" / "seedbed") / "webshop"
    target = root / _fingerprint(files)
    if target.exists():
        return target
    root.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=root))
    try:
        write_shop(read_products(files.records(), *files.instructions()), scratch)
        try:
            scratch.rename(target)
        except OSError:
            if not target.exists():  # otherwise another process was first, with the same content
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def write_shop(products: Iterable[Product], directory: Path) -> None:
    """Make a shop in an empty directory, in one pass over ``products``."""
    noted = _Noted()
    stored = StoredProducts.write(noted.watch(products), directory)
    Index.build((product.asin, product.search_text) for product in stored).save(directory)
    prices, goals = noted.drawn()
    np.save(directory / "prices_D.npy", prices)
    for kind, drawn in goals.items():
        for field in fields(drawn)[1:]:
            np.save(directory / f"{kind}.{field.name}.npy", getattr(drawn, field.name))


def load_shop(directory: Path) -> Shop:
    def goals(kind: str) -> Goals:
        arrays = {f.name: np.load(directory / f"{kind}.{f.name}.npy") for f in fields(Goals)[1:]}
        return Goals(human=kind == "human", **arrays)

    return Shop(
        products=StoredProducts(directory),
        prices_D=np.load(directory / "prices_D.npy"),
        index=Index.load(directory),
        goals={kind: goals(kind) for kind in ("synthetic", "human")},
    )


def _fingerprint(files: ShopFiles) -> str:
    """Hash of the content of all files: about ten seconds for the full catalogue."""
    digest = sha256(_FORMAT.encode())
    for path in (files.items, files.attributes, files.human):
        if path:
            with path.open("rb") as stream:
                while block := stream.read(1 << 24):
                    digest.update(block)
        digest.update(b"|")
    return digest.hexdigest()[:16]

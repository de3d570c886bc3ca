"""Where are the real ALFWorld games on this machine?

``ALFWORLD_DATA`` (a directory as made by ``alfworld-download``), else ``SEEDBED_DATA/alfworld`` holding the same tree
or one archive of it, else where ``alfworld-download`` puts them when it is told nothing. An archive is unpacked once,
into ``SEEDBED_CACHE`` (default ``~/.cache/seedbed``).
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from seedbed.types import UserError

SIZES = {"train": 3553, "valid_seen": 140, "valid_unseen": 134, "valid_train": 200}  #: games of the published splits
ARCHIVE = "json_2.1.2_tw-pddl_all.tar.xz"
_TREE, FILE = "json_2.1.1", "game.tw-pddl"
_MEMBER = re.compile(rf"{re.escape(_TREE)}/((?:{'|'.join(SIZES)})/[^/]+/[^/]+)/{re.escape(FILE)}")
#: Downloads also hold games that nobody can win and two task families that the text games leave out. As in the
#: official code a game counts if its file has this mark and its path has none of these words.
_LEFT_OUT = ("movable", "Sliced")
_SOLVABLE = re.compile(rb'"solvable":\s*true')
_TAIL = 8192  #: bytes at the end of a file that hold the mark and the walkthrough
_HOW = (
    f"run 'alfworld-download' and set ALFWORLD_DATA to its directory, or put {ARCHIVE} into "
    "$SEEDBED_DATA/alfworld, or use the splits generated_train and generated_valid, which need no files"
)


@dataclass(frozen=True, slots=True)
class GameFiles:
    """The games found: a tree ``<split>/<task>/<trial>/game.tw-pddl`` or an archive of one."""

    place: Path

    @property
    def packed(self) -> bool:
        return self.place.is_file()

    def ids(self, split: str) -> list[str]:
        """``<split>/<task>/<trial>`` of every game, sorted.

        Raises ``UserError`` that says what was found unless it is exactly the published number.
        """
        found = self._games(_unpacked(self.place) if self.packed else self.place, split)
        if len(found) != SIZES[split]:
            raise UserError(
                f"{self.place} does not hold the whole split {split!r}: found {listed(self.counts())}, "
                f"the published splits have {listed(SIZES)}; {_HOW}"
            )
        return found

    def counts(self) -> dict[str, int]:
        """Games found of every split. Unpacks nothing."""
        if self.packed:
            return dict.fromkeys(SIZES, 0) | Counter(game.partition("/")[0] for game, _ in self.stream("all"))
        return {name: len(self._games(self.place, name)) for name in SIZES}

    @staticmethod
    def _games(tree: Path, split: str) -> list[str]:
        paths = (tree / split).glob(f"*/*/{FILE}")
        games = ((f"{split}/{path.parent.parent.name}/{path.parent.name}", path) for path in paths)
        return sorted(game for game, path in games if _counts_as_game(game, _end(path)))

    def read(self, game: str) -> bytes:
        """Content of one game file. Raises ``UserError`` if it is not there."""
        path = self.path(game)
        try:
            return path.read_bytes()
        except OSError as error:
            raise UserError(f"game file {path} cannot be read ({error.strerror}); {_HOW}") from error

    def path(self, game: str) -> Path:
        return (_unpacked(self.place) if self.packed else self.place) / game / FILE

    def stream(self, split: str) -> Iterator[tuple[str, bytes]]:
        """(id, content) of every game of a split, or of all four for ``all``. An archive is read without unpacking."""
        if self.packed:
            for game, data in _members(self.place):
                if split in ("all", game.partition("/")[0]) and _counts_as_game(game, data[-_TAIL:]):
                    yield game, data
            return
        for name in SIZES if split == "all" else (split,):
            for game in self.ids(name):
                yield game, self.read(game)


def find_games() -> GameFiles:
    """Raises ``UserError`` that says where was looked and how to get the games."""
    if official := os.environ.get("ALFWORLD_DATA"):
        candidates = [Path(official) / _TREE]
    elif shared := os.environ.get("SEEDBED_DATA"):
        candidates = [Path(shared) / "alfworld" / _TREE, Path(shared) / "alfworld" / ARCHIVE]
    else:
        candidates = [Path.home() / ".cache" / "alfworld" / _TREE]
        if not candidates[0].exists():
            raise UserError(f"no ALFWorld games: neither ALFWORLD_DATA nor SEEDBED_DATA is set; {_HOW}")
    for place in candidates:
        if place.exists():
            return GameFiles(place)
    raise UserError(f"no ALFWorld games: there is no {' and no '.join(map(str, candidates))}; {_HOW}")


def listed(sizes: dict[str, int]) -> str:
    """``train 3553, valid_seen 140, ...``."""
    return ", ".join(f"{name} {count}" for name, count in sizes.items())


def _counts_as_game(game: str, end: bytes) -> bool:
    return bool(_SOLVABLE.search(end)) and not any(word in game for word in _LEFT_OUT)


def _end(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read()


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                if (match := _MEMBER.fullmatch(member.name)) and member.isfile():
                    yield match[1], tar.extractfile(member).read()
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{archive} is damaged or incomplete ({error}); copy it again") from error


@cache
def _unpacked(archive: Path) -> Path:
    """The tree of an archive, in a directory named after its content, complete or absent."""
    root = Path(os.environ.get("SEEDBED_CACHE") or Path.home() / ".cache" / "seedbed") / "alfworld"
    target = root / sha256(archive.read_bytes()).hexdigest()[:16]
    if target.exists():
        return target / _TREE
    root.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=root))
    try:
        with tarfile.open(archive) as tar:
            wanted = 0

            def games(tar_members: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
                nonlocal wanted
                for member in tar_members:
                    if _MEMBER.fullmatch(member.name) and member.isfile():
                        wanted += 1
                        yield member

            tar.extractall(scratch, members=games(tar), filter="data")
        written = sum(1 for _ in (scratch / _TREE).glob(f"*/*/*/{FILE}"))
        if written != wanted or not written:
            raise UserError(f"{archive} gave {written} of {wanted} games; free disk space at {root} or copy it again")
        try:
            scratch.rename(target)
        except OSError:
            if not target.exists():  # otherwise another process was first, with the same content
                raise
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{archive} is damaged or incomplete ({error}); copy it again") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target / _TREE

"""What of WebShop is on this machine? (``seedbed doctor``)"""

from __future__ import annotations

import os

from seedbed.envs.doctor import Finding
from seedbed.envs.webshop.data import CATALOGUES, find_files
from seedbed.envs.webshop.env import WebShop
from seedbed.types import UserError

#: Published files on Google Drive, as in the setup script of princeton-nlp/WebShop.
_DRIVE = {
    "small": {
        "items_shuffle_1000.json": "1EgHdxQ_YxqIQlvvq5iKlCrkEKR6-j0Ib",
        "items_ins_v2_1000.json": "1IduG0xl544V_A_jv3tHXC0kyFi7PnyBu",
    },
    "full": {
        "items_shuffle.json": "1A2whVgOO0euk5O13n2iYDM0bQRkkRduB",
        "items_ins_v2.json": "1s2j6NgHljiZzQNL3veZaAiyW_qDEgBNi",
        "items_human_ins.json": "14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O",
    },
}


def check() -> list[Finding]:
    return [_small(), _full()]


def _small() -> Finding:
    part = "1,000 products"
    try:
        goals = WebShop().shop.goals
        place = find_files("small").items.parent
    except UserError as error:
        return Finding(part, "missing", str(error).partition(";")[0], _download("small"))
    return Finding(part, "ok", f"{place}: {len(goals['synthetic'])} goals, {len(goals['human'])} human goals")


def _full() -> Finding:
    part = f"{CATALOGUES['full'][1]:,} products"
    try:
        files = find_files("full")
    except UserError as error:
        return Finding(part, "optional", str(error).partition(";")[0], _download("full"))
    people = "with human goals" if files.human else "without human goals"
    return Finding(part, "ok", f"{files.items}, {files.items.stat().st_size / 1e9:.1f} GB, {people}")


def _download(catalogue: str) -> str:
    shared = os.environ.get("SEEDBED_DATA")
    place = os.environ.get("WEBSHOP_DATA") or (f"{shared}/webshop" if shared else "webshop")
    fetched = [f"gdown {drive} -O {place}/{name}" for name, drive in _DRIVE[catalogue].items()]
    setting = [] if "WEBSHOP_DATA" in os.environ or shared else [f"export WEBSHOP_DATA=$PWD/{place}"]
    return " && ".join(["pip install gdown", f"mkdir -p {place}", *fetched, *setting])

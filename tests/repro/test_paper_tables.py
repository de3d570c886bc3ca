"""The paper's averages, recomputed from its cells: which are means of the types, and which shares of 128 games."""

from __future__ import annotations

import pytest

from seedbed.repro.tables import averages, paper_tables, reported

BY_ROW = {(a.table, a.model, a.method, a.skills, a.benchmark): a for a in averages()}
THREE, SEVEN, SMALL = "Qwen2.5-3B-Instruct", "Qwen2.5-7B-Instruct", "Qwen3-1.7B"


def row(model: str, method: str, benchmark: str = "alfworld", table: str = "table1"):
    return BY_ROW[table, model, method, False, benchmark]


def test_every_row_has_all_its_cells():
    table = paper_tables()["table1"]
    assert len(table["rows"]) == 3 * 12
    for line in table["rows"]:
        for benchmark, columns in table["columns"].items():
            assert len(line[benchmark]) == len(columns), line["method"]
            assert all(0 <= cell <= 100 for cell in line[benchmark])


@pytest.mark.parametrize("model", [THREE, SEVEN, SMALL])
def test_seed_and_opid_print_the_mean_of_the_types(model):
    for method in ("seed", "opid"):
        assert row(model, method).kind in ("macro", "both")


def test_inherited_baselines_print_the_share_of_128_games():
    kinds = {
        key[1:4]: a.kind
        for key, a in BY_ROW.items()
        if key[0] == "table1" and key[4] == "alfworld" and key[2] not in ("seed", "opid")
    }
    assert len(kinds) == 30
    assert set(kinds.values()) == {"micro"}
    assert row(SEVEN, "grpo-opsd").won == 103, "80.47 cut to 80.4"


@pytest.mark.parametrize(
    ("model", "method", "won", "macro"),
    [
        (THREE, "grpo", 96, 70.7),
        (THREE, "sdar", 108, 80.1),
        (SEVEN, "grpo", 104, 79.8),
        (SEVEN, "sdar", 110, 83.9),
        (SMALL, "grpo", 59, 42.1),
        (SMALL, "sdar", 69, 47.6),
    ],
)
def test_known_pairs(model, method, won, macro):
    assert row(model, method).won == won and row(model, method).macro == pytest.approx(macro, abs=0.05)


def test_the_ablation_rows_and_the_unseen_rows():
    for method in ("seed", "seed-without-sft", "seed-without-opd"):
        assert row(THREE, method, table="table2").kind == "macro"
    static = row(THREE, "seed-without-on-policy-skill", table="table2")
    assert (static.kind, static.won, static.macro) == ("micro", 108, pytest.approx(80.1, abs=0.05))
    lines = {r["method"]: r["alfworld"] for r in paper_tables()["table2"]["rows"]}
    assert lines["seed-without-on-policy-skill"] == list(reported(THREE, "sdar", "alfworld").values())
    assert {a.kind for a in averages() if a.table == "table7"} == {"macro"}


def test_search_averages_are_means_but_for_one():
    odd = [(a.model, a.method) for a in averages() if a.benchmark == "search" and a.kind != "macro"]
    assert odd == [(THREE, "seed")]
    assert row(THREE, "seed", "search").macro == pytest.approx(45.86, abs=0.01)
    assert row(THREE, "seed", "search").printed == 45.7


def test_counts_of_table_3_are_updates_times_tasks():
    counts = paper_tables()["table3"]["rl_tasks"]
    assert counts == {"alfworld": 150 * 16, "webshop": 150 * 16, "search": 150 * 128}

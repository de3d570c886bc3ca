"""``seedbed bench retriever``: it asks real questions each once and counts where the answer was found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seedbed.commands.bench_retriever import retriever
from seedbed.types import UserError

pytest.importorskip("bm25s", reason="the extra [search] is not installed")
QUESTIONS = {
    "nq": [("Who wrote Dune?", ["F. Herbert", "Frank Herbert"]), ("Who wrote the Iliad?", ["Home"])],
    "musique": [("Where is Troy?", ["The Troad"]), ("Who wrote Dune?", ["Frank Herbert"])],
}
CORPUS = ["Dune is a novel by frank herbert.", "The Iliad is by Homer.", "Troy lies in the Troad, or Biga."]


def test_words_of_answers_are_counted_and_no_question_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("SEARCH_DATA", str(tmp_path))
    monkeypatch.setenv("SEEDBED_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match="there are no test questions in"):
        retriever()
    for name, rows in QUESTIONS.items():
        (tmp_path / f"{name}_test.json").write_text(json.dumps([{"question": q, "answer": a} for q, a in rows]))
    with pytest.raises(UserError, match="there is no corpus in"):
        retriever()
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"contents": text}) + "\n" for text in CORPUS))
    retriever(topk=1, threads=2, out=tmp_path / "out.json")
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["queries"] == 3 and told["retriever"] == "bm25, 3 passages of corpus.jsonl"
    assert told["answer_in_passages"] == pytest.approx(2 / 3), '"Home" is no word of "Homer"'
    assert len(told["ways"]) == 4 and all(min(rates.values()) > 0 for rates in told["ways"].values())
    assert "differ" not in capsys.readouterr().out, "the same passages over HTTP"

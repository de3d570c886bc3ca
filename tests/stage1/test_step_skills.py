"""Critical-step skills from request to teacher: asked for, read, stored, trained, and used on their own turn only."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from chatserver import completion, prompt_of, serving
from collected import collected, episode

from seedbed.config import AnalyzerSettings, AnnotateSettings, load_config
from seedbed.engines.base import ScoreRow
from seedbed.engines.scripted import ScriptedEngine
from seedbed.engines.torch_engine import TorchEngine
from seedbed.prompts.analyzer import answer_schema, answer_text, standalone
from seedbed.prompts.base import SKILL_HEADING, STEP_HEADING, Wording, windowed
from seedbed.render import Renderer
from seedbed.samples import build_samples
from seedbed.scoring import score_pairs, skill_context
from seedbed.skills.analyze import analyze, to_skill
from seedbed.skills.annotator.journal import Journal
from seedbed.skills.audit import audit
from seedbed.skills.openai_annotator import OpenAIAnnotator
from seedbed.skills.sft_chats import save_chats
from seedbed.skills.sft_data import SftSet, build_rows, save_rows
from seedbed.track.run import Run
from seedbed.track.store import append_jsonl, read_jsonl, read_skills, skill_line, write_part
from seedbed.train import annotate, sft
from seedbed.types import Message, Skill, Trajectory, UserError, replace

ADVICE = "Open closed places before you give up."
STEPS = ((1, "Take the mug with the words 'take mug'."), (0, "Open the fridge first: mugs are kept cold."))


def answer(steps: object, skill: object = ADVICE) -> str:
    return json.dumps({"episode_summary": "It ended.", "episode_skill": skill, "step_skills": steps})


def skill_of(trajectory: Trajectory, steps: tuple[tuple[int, str], ...] = STEPS) -> Skill:
    return Skill(trajectory.id, "workflow", "ok", ADVICE, "It ended.", version=trajectory.version, steps=steps)


def request(trajectory: Trajectory, steps: int) -> str:
    return dict(standalone(trajectory, steps).slots)["request"]


def test_without_steps_the_texts_are_what_they_were_before_there_were_any() -> None:
    """Hashes from the commit before step skills: the models that ship were trained on these bytes."""
    quoted = Skill("a", "workflow", "ok", "Open é doors.", 'It "won".', steps=STEPS)
    texts = (standalone(episode()).text, standalone(episode(won=False)).text, json.dumps(answer_schema()))
    assert [hashlib.sha256(text.encode()).hexdigest()[:16] for text in (*texts, answer_text(quoted))] == [
        "a78b008df7b523e6",
        "2ab4730f7ca10b56",
        "35df05fa6c84bf34",
        "092eea4c7aef574c",
    ]


def test_with_steps_the_request_differs_by_a_field_and_numbers_as_the_episode_does() -> None:
    plain, asked = standalone(episode()), standalone(episode(), 3)
    assert [slot for slot in plain.slots if slot[0] != "request"] == [s for s in asked.slots if s[0] != "request"]
    text = request(episode(), 3)
    assert "`step_skills`" in text and "At most 3 steps" in text and json.dumps(answer_schema(3)) in text
    assert "step_skills" not in request(episode(), 0)
    schema = answer_schema(3)
    assert schema["required"] == ["episode_summary", "episode_skill", "step_skills"]
    assert schema["properties"]["step_skills"] == {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "maxProperties": 3,
    }
    assert re.findall(r"^Step (\d+)$", dict(asked.slots)["steps"], re.MULTILINE) == ["1", "2"]
    assert to_skill(episode(), answer({"1": "look first"}), "stop", "x", 4, 3).steps == ((0, "look first"),)


def test_only_usable_text_under_the_number_of_a_step_that_was_played_is_kept() -> None:
    trajectory, long = episode(), "a" * 4001
    hostile = {
        "0": "no step has this number",
        "3": "nor this",
        "-1": "nor this",
        "1.0": "nor this",
        "1e0": "nor this",
        "": "nor this",
        "step 1": "nor this",
        "99999999999999999999": "nor this",
        "__proto__": "nor this",
        " 2 ": "take the mug",
        "1": 7,
    }
    assert to_skill(trajectory, answer(hostile), "stop", "x", 4, 9).steps == ((1, "take the mug"),)
    echo = "one short piece of advice for that very step"
    for useless in (None, ["take it"], {"1": "take it"}, "", "  ", "...", "<advice>", "N/A", echo, long):
        assert to_skill(trajectory, answer({"1": useless, "2": "go on"}), "stop", "x", 4, 9).steps == ((1, "go on"),)
    for no_object in (None, [], ["take it"], "take it", 3):
        skill = to_skill(trajectory, answer(no_object), "stop", "x", 4, 9)
        assert (skill.status, skill.text, skill.steps) == ("ok", ADVICE, ())


def test_the_first_ones_of_the_answer_up_to_the_limit() -> None:
    both = answer({"2": "second turn", "1": "first turn"})
    for limit, steps in ((0, ()), (1, ((1, "second turn"),)), (2, ((1, "second turn"), (0, "first turn")))):
        assert to_skill(episode(), both, "stop", "x", 4, limit).steps == steps


def test_step_skills_count_only_beside_the_episode_skill_that_is_taken() -> None:
    alone = to_skill(episode(), answer({"1": "look first"}, skill=None), "stop", "x", 4, 3)
    assert (alone.status, alone.steps) == ("empty", ())
    final = json.dumps({"episode_summary": "It ended.", "episode_skill": "Think anew."})
    corrected = to_skill(episode(), f"{answer({'1': 'look first'})}\nNo, better:\n{final}", "stop", "x", 4, 3)
    assert (corrected.text, corrected.steps) == ("Think anew.", ()), "the draft's steps go with the draft"
    draft = json.dumps({"step_skills": {"2": "of nobody"}})
    assert to_skill(episode(), f"{answer({'1': 'look first'})} {draft}", "stop", "x", 4, 3).steps == (
        (0, "look first"),
    )


def test_the_policy_and_an_external_analyzer_are_asked_and_read_alike(
    renderer: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai", reason="the extra seedbed[openai] is not installed")
    pytest.importorskip("tenacity", reason="the extra seedbed[openai] is not installed")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    trajectory, said = episode(), answer({"2": "take the mug", "1": "look first", "9": "leave"})
    prompts = []

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return said

    engine, settings = ScriptedEngine(renderer, reply), AnalyzerSettings(steps=2)
    engine.version = trajectory.version
    (own,) = analyze(engine, renderer, [trajectory], settings).values()
    with serving(lambda number, body: completion(said)) as server:
        journal = Journal(tmp_path / "annotations.jsonl")
        external = OpenAIAnnotator(AnnotateSettings(model="glm", base_url=server.url), journal, steps=2)
        (bought,) = external.annotate([trajectory])
        journal.close()
    (body,) = server.bodies
    assert prompt_of(body) == standalone(trajectory, 2).text and prompt_of(body) in prompts[0]
    assert body["response_format"]["json_schema"]["schema"] == answer_schema(2)
    assert own.steps == bought.steps == ((1, "take the mug"), (0, "look first"))
    assert replace(own, source="glm") == bought


def test_a_stage_1_row_holds_them_and_its_answer_reads_back_as_the_same_skill(
    renderer: Renderer, tmp_path: Path
) -> None:
    trajectory = episode()
    skill = skill_of(trajectory)
    (row,) = build_rows([trajectory], {trajectory.id: skill}, renderer, 2)
    written = renderer.tokenizer.decode(row.ids_T[row.answer_T][:-1].tolist())
    asked = renderer.open([Message("user", standalone(trajectory, 2).text)]).ids_T
    assert np.array_equal(row.ids_T[~row.answer_T], asked)
    assert json.loads(written)["step_skills"] == {"2": STEPS[0][1], "1": STEPS[1][1]}
    read = to_skill(trajectory, written, "stop", "policy", trajectory.version, 2)
    assert replace(read, raw="") == skill

    write_part(tmp_path / "trajectories", "c0000", [trajectory])
    rows = SftSet([row], [], [], {trajectory.id: skill}, steps=2)
    save_rows(tmp_path, rows, tmp_path)
    save_chats(tmp_path, rows, [trajectory], tmp_path)
    (line,), (chat,) = read_jsonl(tmp_path / "sft_data.jsonl"), read_jsonl(tmp_path / "sft_train.jsonl")
    assert line["response"] == chat["response"] == written
    assert chat["prompt"] == standalone(trajectory, 2).text

    (fewer,) = build_rows([trajectory], {trajectory.id: skill}, renderer, 1)
    assert json.loads(renderer.tokenizer.decode(fewer.ids_T[fewer.answer_T][:-1].tolist()))["step_skills"] == {
        "2": STEPS[0][1]
    }
    none = {trajectory.id: skill_of(trajectory, ())}
    with pytest.raises(UserError, match="analyzer.steps=2, but no annotated skill has step skills"):
        build_rows([trajectory], none, renderer, 2)


def test_annotate_and_sft_follow_the_setting(
    renderer: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai", reason="the extra seedbed[openai] is not installed")
    pytest.importorskip("tenacity", reason="the extra seedbed[openai] is not installed")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    run, said = collected(tmp_path / "run", [episode()]), answer({"2": "take the mug"})
    with serving(lambda number, body: completion(said)) as server:
        config = load_config(None, ["analyzer.steps=2", f"annotate.base_url={server.url}"])
        annotate.annotate(run, config, "openai")
    assert prompt_of(server.bodies[0]) == standalone(episode(), 2).text
    assert [skill.steps for skill, _ in read_skills(run.skills)] == [((1, "take the mug"),)]
    sft.build_set(Run.new(tmp_path / "sft"), config, run, renderer)
    (chat,) = read_jsonl(tmp_path / "sft" / "sft_train.jsonl")
    assert (chat["prompt"], chat["response"]) == (standalone(episode(), 2).text, said)


def test_stored_and_read_back_and_lines_without_them_are_as_before(tmp_path: Path) -> None:
    old = {"trajectory": "v0/t/0", "kind": "workflow", "status": "ok", "text": "x", "repairs": ["fence"], "update": 3}
    skill = replace(skill_of(episode()), repairs=("fence",))
    append_jsonl(tmp_path / "skills.jsonl", [old, skill_line(skill, update=4), skill_line(replace(skill, steps=()))])
    (first, extra), (second, _), (third, _) = read_skills(tmp_path / "skills.jsonl")
    assert first == Skill("v0/t/0", "workflow", "ok", "x", repairs=("fence",)) and extra == {"update": 3}
    assert second == skill and third == replace(skill, steps=())
    assert "steps" not in skill_line(replace(skill, steps=()))


def walk(renderer: Renderer) -> Trajectory:
    """Three windowed turns with real tokens."""
    wording, seen, turns = Wording("You walk."), ["A hall.", "A door.", "A key."], []
    for k, observation in enumerate(seen):
        history = list(zip(seen[:k], ["look"] * k, strict=True))
        prompt = windowed(
            wording,
            goal="leave",
            observation=observation,
            admissible=["look"],
            think=False,
            history=history,
            turn=k,
            keep=5,
        )
        prompt_ids = renderer.open([Message("user", prompt.text)]).ids_T
        response = np.asarray([*renderer.tokenizer.encode(f"look {k}"), renderer.stop_id], np.int32)
        turns.append(
            replace(
                episode().turns_K[0],
                prompt=prompt,
                prompt_ids_T=prompt_ids,
                response_ids_T=response,
                logprobs_T=np.zeros(len(response), np.float32),
            )
        )
    return replace(episode(), turns_K=tuple(turns), version=0)


def test_a_turn_with_a_step_skill_is_taught_by_it_and_every_other_by_the_episode_skill(renderer: Renderer) -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    shape = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, head_dim=16)
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(renderer.tokenizer), num_key_value_heads=2, **shape)).eval()
    engine, trajectory = TorchEngine(model, renderer.stop_id), walk(renderer)
    samples = build_samples(trajectory, renderer.stop_id)
    assert [sample.turns for sample in samples] == [(0,), (1,), (2,)]
    step = "Open the door now."
    by_hand = []
    for k, sample in enumerate(samples):
        ordinary = trajectory.turns_K[k].prompt.text
        if k == 1:
            tail = "Now it is your turn."
            assert ordinary.count(tail) == 1
            text = ordinary.replace(tail, f"{STEP_HEADING} [{step}]\n{tail}")
        else:
            task = "Your task is to: leave"
            assert ordinary.count(task) == 1
            text = ordinary.replace(task, f"{task}\n{SKILL_HEADING} [{ADVICE}]")
        prompt = renderer.open([Message("user", text)]).ids_T
        by_hand.append(np.concatenate([prompt, trajectory.turns_K[k].response_ids_T]))
        assert np.array_equal(skill_context(sample, ADVICE, renderer, step if k == 1 else ""), by_hand[k])

    def scores(skill: Skill, limit: int = 4000):
        return score_pairs(engine, renderer, samples, {trajectory.id: skill}, temperature=1.0, max_prompt_tokens=limit)

    taught = scores(skill_of(trajectory, ((1, step), (7, "of no turn"))))
    for sample, score, ids in zip(samples, taught, by_hand, strict=True):
        selected = np.arange(len(ids)) >= len(ids) - int(sample.sampled_T.sum())
        (expected,) = engine.score([ScoreRow(ids.astype(np.int32), selected)], 1.0)
        np.testing.assert_allclose(score.skill_T[sample.sampled_T], expected, atol=1e-5)
    plain = scores(skill_of(trajectory, ()))
    changed = [not np.allclose(a.skill_T, b.skill_T, equal_nan=True) for a, b in zip(taught, plain, strict=True)]
    assert changed == [False, True, False]
    invalid = replace(skill_of(trajectory, ((1, step),)), status="empty", text="")
    assert all(score.skill_T is None for score in scores(invalid)), "no episode skill, no teacher"
    longest = max(len(turn.prompt_ids_T) for turn in trajectory.turns_K) + 100
    assert [s.skill_cut for s in scores(skill_of(trajectory, ((1, "x" * 200),)), longest)] == [False, True, False]


def test_a_transcript_is_refused_before_anything_is_computed(renderer: Renderer) -> None:
    with pytest.raises(UserError, match="analyzer.steps=2 needs rollout.layout=windowed"):
        load_config("tiny", ["rollout.layout=transcript", "analyzer.steps=2"])
    assert load_config("tiny", ["rollout.layout=windowed", "analyzer.steps=2"]).analyzer.steps == 2
    played = replace(episode(), layout="transcript")
    with pytest.raises(UserError, match="played with rollout.layout=transcript"):
        build_rows([played], {played.id: skill_of(played)}, renderer, 2)
    assert to_skill(played, answer({"1": "look first"}), "stop", "x", 4).steps == ()


def test_an_audit_counts_them_and_sees_a_gold_answer_in_one() -> None:
    first, second, third = (episode(attempt) for attempt in range(3))
    skills = [skill_of(first), skill_of(second, ()), replace(skill_of(third, ((0, "Say Paris."),)), text="Look.")]
    found = audit(
        [first, second, third],
        {skill.trajectory: skill for skill in skills},
        allowed_split="train",
        held_out={},
        secrets={"t1": ("Paris",)},
    )
    assert found["step_skills"] == {"share": pytest.approx(2 / 3), "mean": 1.0}
    assert [(leak["trajectory"], leak["text"]) for leak in found["leaks"]] == [(third.id, "Paris")]

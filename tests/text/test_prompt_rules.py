"""What is asked of a response, what is required of it, and what a result says about the rules."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from copy import copy
from pathlib import Path

import pytest
from worlds import LAYOUTS, NAMES, World, make, thought

from seedbed.config import RolloutSettings
from seedbed.engines.scripted import ScriptedEngine
from seedbed.envs.alfworld.env import AlfWorld
from seedbed.envs.panels import Panel
from seedbed.envs.project import project_tag
from seedbed.evaluate.run import evaluate
from seedbed.render import Renderer

Make = Callable[..., World]
every_world = pytest.mark.parametrize("name", NAMES)
REQUIRED = {"alfworld": True, "webshop": True, "search": False}  # official code


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """``world(name, **options)``."""
    return lambda name, **options: make(name, tmp_path, monkeypatch, **options)


@every_world
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("think", [True, False])
def test_reasoning_is_asked_where_it_is_required(
    renderer: Renderer, world: Make, name: str, layout: str, think: bool
) -> None:
    """The defaults: asked for everywhere, required in ALFWorld and WebShop, and never required without being asked."""
    place = world(name)
    bare, full = place.winning[0], thought(place.winning)[0]
    played = place.play(renderer, [bare], max_turns=1, layout=layout, think=think)
    prompt = played.turns_K[0].prompt.text
    assert ("<think> </think>" in prompt) == think
    assert played.turns_K[0].action.valid == (not (think and REQUIRED[name]))
    played = place.play(renderer, [full], max_turns=1, layout=layout, think=think)
    assert played.turns_K[0].action.valid
    for required in (True, False):  # the switch, which never goes beyond what is asked
        played = world(name, require_think=required).play(renderer, [bare], max_turns=1, layout=layout, think=think)
        assert played.turns_K[0].prompt.text == prompt
        assert played.turns_K[0].action.valid == (not (think and required))


@every_world
def test_the_footer_and_the_list_are_the_windowed_prompts_last_words(
    renderer: Renderer, world: Make, name: str
) -> None:
    """Windowed: role first, task and skill slot before history, then observation, legal actions and what is asked."""
    place = world(name)
    played = place.play(renderer, thought(place.winning))
    hidden = place.play(renderer, thought(place.winning), list_admissible=False)
    for number, (turn, other) in enumerate(zip(played.turns_K, hidden.turns_K, strict=True)):
        names = [name for name, _ in turn.prompt.slots]
        assert names[0] == "role" and names[-2:] == ["actions", "footer"]
        assert names.index("skill") == names.index("task") + 1
        assert ("history" in names) == (number > 0)
        assert ("Your admissible actions are: [" in turn.prompt.text) == (name != "search")
        assert dict(other.prompt.slots) == {**dict(turn.prompt.slots), "actions": ""}


def test_a_later_windowed_prompt_word_for_word(renderer: Renderer, world: Make) -> None:
    """ALFWorld, third turn, one pair of history: numbered from 1, quoted, the task on top (official code)."""
    place = world("alfworld")
    first, second, third = place.play(renderer, thought(place.winning), history=1).turns_K[:3]
    legal = place.environment.open(place.task)
    legal.start()
    for turn in (first, second):
        seen = legal.step(turn.action.text)
    wording = place.environment.wording
    assert third.prompt.text == (
        f"{wording.role}\nYour task is to: {place.goal}\nYou have already taken 2 step(s). The last 1 observations and "
        f"actions: [Observation 2: '{first.observation}', Action 2: '{second.action.text}']\nYou are now at step 3 and "
        f"your current observation is:\n{second.observation}\nYour admissible actions are: "
        f"[{', '.join(repr(action) for action in seen.admissible)}]\nNow it is your turn. {wording.think} {wording.act}"
    )
    assert seen.text == second.observation and "help" not in seen.admissible


LOOSE = [  # official code: valid; not what the prompt asks for
    ("<think>x</think><action>look</action> or <action>inventory</action>", "look"),
    ("<think>x</think><action><action>look</action></action>", "look"),
    ("<think>x</think><action>look\ninventory</action>", "look"),
    ("<action>look</action><think>x</think>", "look"),
    ("<think>x</think><action></action>", ""),
]
NEVER = [  # invalid in both readings
    "<think>x</think>look",
    "<think>x</think></action>look<action>",
    "<think><action>look</action></think>",
    "<think>好</think><action>look</action>",
    "<think>x</think><action>lo\x1bok</action>",
    "<think>x</think><action>take caf\ufffd</action>",
    "<action>look</action>",
]


@pytest.mark.parametrize("name", ["alfworld", "webshop"])
def test_a_stricter_format_is_a_switch(world: Make, name: str) -> None:
    """The default is the paper's. The action that is played is the same either way."""
    loose, strict = world(name), world(name, strict_format=True)
    for response, text in LOOSE:
        for place, valid in ((loose, True), (strict, False)):
            action = place.environment.project(response, True)
            assert (action.text, action.valid) == (text, valid), response
    for response in NEVER:
        read = [place.environment.project(response, True) for place in (loose, strict)]
        assert read[0] == read[1] and not read[0].valid, response


def test_the_default_is_valid_exactly_where_the_official_code_is() -> None:
    """On all recorded responses but two: there is no block in one, and a tag in capitals in the other."""
    folder = os.environ.get("SEEDBED_GOLDEN", "")
    if not Path(folder, "projection.json").is_file():
        pytest.skip("SEEDBED_GOLDEN does not name a folder with projection.json in it")
    cases = json.loads(Path(folder, "projection.json").read_text("utf-8"))
    cases = [case for case in cases if case["op"] == "project_action_tag"]
    differ = {
        case["name"]
        for case in cases
        for reading, rule in (("alfworld", (True, 30)), ("webshop_no_think", (False, 20)))
        if project_tag(case["inputs"]["raw"], *rule, strict_format=False).valid != case["expected"][reading]["valid"]
    }
    assert len(cases) > 40 and differ == {"tag_reversed_tags", "tag_think_upper"}


def test_facts_name_what_a_score_depends_on(world: Make) -> None:
    found = {name: (place := world(name)).environment.inner.facts(place.task) for name in NAMES}
    assert found == {
        "alfworld": {
            "backend": "native",
            "format": "generated",
            "put": "move {thing} to {place}",
            "require_think": True,
            "strict_format": False,
        },
        "webshop": {
            "catalogue": "small",
            "products": 1,
            "goals": 3,
            "strict_search": False,
            "require_think": True,
            "strict_format": False,
        },
        "search": {
            "retriever": "bm25, 2 passages of corpus.jsonl",
            "topk": 3,
            "max_turns": 4,
            "require_think": False,
        },
    }
    changed = world("webshop", strict_search=True, strict_format=True)
    facts = changed.environment.inner.facts(changed.task)
    assert facts["strict_search"] and facts["strict_format"]
    assert json.loads(json.dumps(found)) == found


def test_facts_tell_the_format_of_real_games(data: Path) -> None:
    environment = AlfWorld()
    facts = environment.facts(environment.tasks("valid_unseen")[0])
    assert (facts["format"], facts["put"]) == ("2.1.2", "move {thing} to {place}"), data


@every_world
def test_an_evaluation_says_what_its_score_depends_on(renderer: Renderer, world: Make, name: str) -> None:
    place = world(name)
    panel, left = Panel("one", name, (place.task,), ""), iter(thought(place.winning))
    engine, settings = ScriptedEngine(renderer, lambda _: next(left)), RolloutSettings(max_prompt_tokens=20_000)
    result = evaluate(engine, place.environment.inner, renderer, settings, panel, attempts=1, temperature=0.0, seed=0)
    assert result["summary"]["won"] == 1 and result["env_facts"] == place.environment.inner.facts(place.task)


def test_a_template_that_reasons_for_the_policy_waives_the_requirement(renderer: Renderer, world: Make) -> None:
    """Qwen3 with ``enable_thinking: false`` starts every answer with an empty reasoning; the prompt still asks."""
    place = world("alfworld")
    closed = copy(renderer.tokenizer)
    ending = "<|im_start|>assistant\n{% endif %}"
    assert closed.chat_template.endswith(ending)
    closed.chat_template = closed.chat_template.replace(ending, ending.replace("{%", "<think>\n\n</think>\n\n{%"))
    for chosen, valid in ((renderer, False), (Renderer(closed), True)):
        played = place.play(chosen, place.winning[:1], max_turns=1)
        assert played.turns_K[0].action.valid == valid
        assert "<think> </think>" in played.turns_K[0].prompt.text


def test_the_first_webshop_prompt_has_the_task_before_the_page(renderer: Renderer, world: Make) -> None:
    """As in the official templates: in WebShop the task leads, in ALFWorld it ends the first observation."""
    for name, order in (
        ("webshop", ["role", "task", "skill", "now", "observation"]),
        ("alfworld", ["role", "now", "observation", "task", "skill"]),
    ):
        place = world(name)
        played = place.play(renderer, thought(place.winning)[:1], max_turns=1)
        assert [key for key, _ in played.turns_K[0].prompt.slots][:5] == order


@pytest.mark.parametrize(
    ("name", "action", "legal"),
    [
        ("alfworld", "go to nowhere 1", False),
        ("alfworld", "Look.", True),
        ("webshop", "search[red shoes]", True),
        ("webshop", "search[]", False),
        ("webshop", "click[buy now]", False),
    ],
)
def test_only_legal_actions_can_be_valid_by_switch(
    renderer: Renderer, world: Make, name: str, action: str, legal: bool
) -> None:
    """It decides what is penalised; the action is sent all the same."""
    place = world(name)
    for only in (False, True):
        reply = thought([f"<action>{action}</action>"])
        turn = place.play(renderer, reply, max_turns=1, admissible_only=only).turns_K[0]
        assert turn.action.valid == (legal or not only)
        assert len(place.environment.sent) == 1 and turn.observation

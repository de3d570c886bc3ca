"""Throw many random and mutated answers at the analyzer's parser and say what came of it.

    python scripts/fuzz_parse.py --count 100000

Fails if the parser raises, takes over 10 ms of CPU time for one answer, gives a skill that stands only in a reasoning
block, or gives one that echoes the request.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable

from rich.progress import track

from seedbed.prompts.analyzer import answer_schema
from seedbed.skills.parse import parse_analysis

LIMIT_S = 0.010
DRAFT = "zzdraft never trust a draft"
REQUEST = (
    "You review one finished episode of an agent and write down what can be learned from it. Reply with one JSON "
    "object. `episode_skill`: one short piece of advice that helps the same agent with other tasks of this kind."
)
PIECES = [
    *"{}[]\",:\\`\n\t '",
    '"episode_skill"',
    '"episode_summary"',
    "```json",
    "null",
    "None",
    "True",
    "1e9",
    "-",
    "\\u00",
]
PIECES += [
    "<think>",
    "</think>",
    "<|im_end|>",
    "\ud83d",
    "\x00",
    "é",
    "“",
    "//",
    "{object}",
    "step",
    "N/A",
    "...",
    "\u202e",
    "\\",
]
WORDS = "open the closed fridge first then take only what goal names and never put it down before you clean".split()
Case = tuple[str, str]  #: answer, what it must not give


def advice(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randrange(1, 60)))


def answer(rng: random.Random, skill: str | None = None) -> str:
    value = {"episode_summary": advice(rng), "episode_skill": advice(rng) if skill is None else skill}
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2]))
    return rng.choice(["{}", "```json\n{}\n```", "Here it is:\n{}\nDone.", '{{"answer": {}}}']).format(text)


def mutate(rng: random.Random, text: str) -> str:
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.randrange(12))
        text = rng.choice(
            [
                text[:at] + rng.choice(PIECES) + text[at:],
                text[:at] + text[end:],
                text[:at],
                text[:at] + text[at:end] * rng.randrange(1, 40) + text[end:],
                text[:at] + chr(rng.choice([rng.randrange(128), rng.randrange(0x3000)])) + text[end:],
            ]
        )
    return text


def noise(rng: random.Random) -> Case:
    return "".join(rng.choices(PIECES, k=rng.randrange(400))), ""


def mutated(rng: random.Random) -> Case:
    return mutate(rng, answer(rng)), ""


def hostile(rng: random.Random) -> Case:
    """Deep, long or repetitive: as large as an answer of 4,096 tokens can be."""
    n = rng.randrange(1, 16_000)
    unit = rng.choice(
        ['{"a":', "[", '{"episode_skill":', '"', "\\", "{'", "```", '{"episode_skill": "x",', "{ ", "//", "[{", '\\"']
    )
    tail = rng.choice(["", answer(rng), "}" * min(n, 500), '"'])
    return (unit * (n // len(unit) + 1))[:n] + tail, ""


def drafted(rng: random.Random) -> Case:
    """A draft in the reasoning, which stays whole; everything around it is mutated."""
    inside = mutate(rng, answer(rng, DRAFT)).replace("<think>", "").replace("</think>", "")
    after = rng.choice(["", mutate(rng, answer(rng))]).replace("<think>", "").replace("</think>", "")
    return f"<think>{inside}</think>{after}", DRAFT


def echoed(rng: random.Random) -> Case:
    words = REQUEST.split()
    start = rng.randrange(len(words) - 5)
    piece = " ".join(words[start : start + rng.randrange(5, 30)])
    return rng.choice([answer(rng, piece), REQUEST + json.dumps(answer_schema()) + answer(rng, piece)]), piece


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    makers: list[Callable[[random.Random], Case]] = [noise, mutated, hostile, drafted, echoed]
    rng, fates, seconds, faults = random.Random(asked.seed), Counter(), [], []
    for number in track(range(asked.count), description="answers"):
        make = makers[number % len(makers)]
        text, banned = make(rng)
        finish = rng.choice(["stop", "stop", "length"])
        try:
            best, parsed = _timed(text, finish)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            faults.append(f"{make.__name__} {number}: raised {error!r} on {text[:200]!r}")
            continue
        seconds.append(best)
        fates[f"{make.__name__}: {parsed.status}"] += 1
        if best > LIMIT_S:
            faults.append(f"{make.__name__} {number}: {1000 * best:.1f} ms for {len(text)} characters: {text[:80]!r}")
        if banned and banned.casefold() in " ".join(parsed.skill.casefold().split()):
            faults.append(f"{make.__name__} {number}: gave {parsed.skill!r}")
    seconds.sort()
    for fate, count in sorted(fates.items()):
        print(f"{count:8}  {fate}")
    middle, high = seconds[len(seconds) // 2], seconds[int(0.999 * len(seconds))]
    print(
        f"{asked.count} answers, seed {asked.seed}: {len(faults)} faults; CPU a call: median {1e6 * middle:.0f} us, "
        f"99.9 % {1e3 * high:.2f} ms, longest {1e3 * seconds[-1]:.2f} ms"
    )
    for fault in faults[:10]:
        print(fault.encode("utf-8", "backslashreplace").decode())
    sys.exit(bool(faults))


def _timed(text: str, finish: str) -> tuple[float, object]:
    """CPU seconds of one call, the better of two if the first was slow: other load can hit any one."""
    best = float("inf")
    for _ in range(2):
        start = time.thread_time()
        parsed = parse_analysis(text, finish, prompt_text=REQUEST)
        best = min(best, time.thread_time() - start)
        if best <= LIMIT_S / 2:
            break
    return best, parsed


if __name__ == "__main__":
    main()

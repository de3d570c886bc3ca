"""The tokenizer of the tiny model: a fixed word list over bytes, in which stock phrases are one token.

Demo time is token count, so the sentences a game repeats are single tokens, while nouns, verbs and numbers keep one
each. Anything else falls back to bytes: every text round-trips. There are no merges: a piece is a word of the list or
bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
SPECIALS = ("<|user|>", "<|assistant|>", "<|end|>", "<|pad|>")
TAGS = ("<action>", "</action>")

#: Pieces of the game's sentences between nouns and numbers.
GAME = (
    "You are in the middle of a room. Looking quickly around you, you see a",
    "You are in the middle of a room. Looking quickly around you, you see nothing.",
    ", a",
    ", and a",
    "On the",
    ". On the",
    ", you see a",
    ", you see nothing.",
    "You arrive at",
    ". The",
    " is closed.",
    " is open. In it, you see a",
    "The",
    " is open. In it, you see nothing.",
    "You open the",
    "You close the",
    "You pick up the",
    "You move the",
    "You heat the",
    "You cool the",
    "You clean the",
    " from the",
    " to the",
    " using the",
    " and the",
    "You turn on the",
    "Nothing happens.",
    "You are facing the",
    ". Next to it, you see nothing.",
    ". Next to it, you see a",
    "You are carrying: a",
    "You are not carrying anything.",
    "There's nothing special about",
    "This is a",
    "This is a normal",
    ". In it, you see a",
    "go to",
    "\n",
    ".\n",
    "]\n",
    ".]\n",
    '{"episode_summary": "',
    '", "episode_skill": "',
    '"}',
    '."}',
    '.", "episode_skill": "',
)
CLASSES = (
    "alarmclock apple armchair bathtubbasin bed book bowl box bread butterknife cabinet candle cart cd cellphone "
    "cloth coffeemachine coffeetable countertop creditcard cup desk desklamp diningtable dishsponge drawer "
    "dresser egg floorlamp fork fridge garbagecan glassbottle handtowel handtowelholder houseplant kettle "
    "keychain knife ladle laptop laundryhamper lettuce microwave mirror mug newspaper ottoman pan papertowelroll "
    "pen pencil peppershaker pillow plate pot potato remotecontrol safe saltshaker shelf sidetable sinkbasin "
    "soapbar soapbottle sofa spatula spoon spraybottle statue stoveburner teddybear television tissuebox toaster "
    "toilet toiletpaper toiletpaperhanger tomato towel towelholder tvstand vase watch wateringcan window "
    "winebottle"
).split()
VERBS = "take move open close examine use look inventory clean heat cool slice put find help".split()


def build(phrases: Iterable[str], texts: Iterable[str]) -> Tokenizer:
    """Words: bytes, the game's phrases, ``phrases`` (whole), nouns, verbs, numbers 1-20 and every word of ``texts``."""
    whole = list(dict.fromkeys((*GAME, *phrases)))
    words = [f" {name}" for name in CLASSES] + [
        *VERBS,
        *(f" {verb}" for verb in VERBS),
        *(f" {n}" for n in range(1, 21)),
    ]
    words += ["from", " from", "to", " to", "with", " with"]
    words += [space + word for text in texts for word in re.findall(r"[A-Za-z]+", text) for space in ("", " ")]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = list(dict.fromkeys([*alphabet, *map(_mapped, whole), *map(_mapped, words)]))
    tokenizer = Tokenizer(BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], ignore_merges=True))
    stops = "|".join(
        re.escape(p) + (r"(?![A-Za-z])" if p[-1].isalpha() else "") for p in sorted(whole, key=len, reverse=True)
    )
    split = Regex(f"{stops}| ?[A-Za-z]+| ?[0-9]+|[^A-Za-z0-9]")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(split, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIALS])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in TAGS])
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """tokenizer.json, its config and the chat template, as transformers reads them."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "model_max_length": 1024,
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def _mapped(text: str) -> str:
    """A text in the byte alphabet of the vocabulary file."""
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)[0][0]

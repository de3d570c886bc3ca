"""How is text that a model or an environment wrote shown safely? As data: whatever acts on a screen is made visible."""

from __future__ import annotations

import re

# C0 and C1 controls but tab and line feed (terminal escapes), bidirectional marks and overrides, line separators, lone
# surrogates (cannot be written as UTF-8), the byte order mark, Unicode noncharacters of the first plane
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufdd0-\ufdef"
    "\ufffe\uffff]"
)


def visible(text: str) -> str:
    """``text`` with every character that could act on a terminal or a page written as ``⟨U+XXXX⟩``. Idempotent."""
    return _ACTING.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text)

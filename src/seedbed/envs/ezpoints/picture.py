"""How do two cards and a formula look? Drawn here with Pillow and its built-in font; nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from seedbed.types import UserError

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

    from seedbed.envs.ezpoints.game import Card

SIDE = 300  #: pixels, as in gym_cards
CARDS = ((12, 40, 142, 222), (158, 40, 288, 222))  #: left, top, right, bottom
LINE = (12, 245, 288, 280)  #: where the formula stands
_FELT, _WHITE, _RED, _BLACK = (38, 92, 70), (255, 255, 255), (196, 24, 36), (24, 24, 28)


def picture(hand: Sequence[Card], formula: Sequence[str]) -> np.ndarray:
    """(300, 300, 3) uint8: the cards side by side, the formula below. Raises ``UserError`` without Pillow."""
    try:
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 - only where images are asked for
    except ImportError as error:
        raise UserError(
            "images of EZPoints need Pillow: pip install 'seedbed[visual]', or set env.options.observation=text"
        ) from error
    canvas = Image.new("RGB", (SIDE, SIDE), _FELT)
    draw = ImageDraw.Draw(canvas)
    for card, (left, top, right, bottom) in zip(hand, CARDS, strict=True):
        draw.rounded_rectangle((left, top, right, bottom), radius=10, fill=_WHITE, outline=_BLACK)
        ink = _RED if card.suit in ("hearts", "diamonds") else _BLACK
        draw.text((left + 10, top + 4), card.rank, fill=ink, font=ImageFont.load_default(36))
        draw.text((right - 10, bottom - 8), card.rank, fill=ink, font=ImageFont.load_default(36), anchor="rs")
        _suit(draw, card.suit, (left + right) // 2, (top + bottom) // 2, ink)
    draw.text(LINE[:2], " ".join(["Formula:", *formula]), fill=_WHITE, font=ImageFont.load_default(24))
    return np.array(canvas)


def _suit(draw: ImageDraw, suit: str, x: int, y: int, ink: tuple[int, int, int]) -> None:
    """A suit 60 pixels high around (x, y)."""
    if suit == "diamonds":
        draw.polygon([(x, y - 30), (x + 22, y), (x, y + 30), (x - 22, y)], fill=ink)
        return
    if suit == "hearts":
        draw.ellipse((x - 28, y - 28, x, y), fill=ink)
        draw.ellipse((x, y - 28, x + 28, y), fill=ink)
        draw.polygon([(x - 26, y - 7), (x + 26, y - 7), (x, y + 30)], fill=ink)
        return
    draw.polygon([(x, y - 4), (x - 10, y + 30), (x + 10, y + 30)], fill=ink)  # the stem
    if suit == "spades":
        draw.ellipse((x - 28, y - 10, x, y + 18), fill=ink)
        draw.ellipse((x, y - 10, x + 28, y + 18), fill=ink)
        draw.polygon([(x - 26, y - 2), (x + 26, y - 2), (x, y - 32)], fill=ink)
    else:
        for left, top in ((x - 14, y - 32), (x - 29, y - 8), (x + 1, y - 8)):
            draw.ellipse((left, top, left + 28, top + 28), fill=ink)

"""Make ``src/seedbed/envs/webshop/nouns.json`` again: spaCy's nouns of the titles, and a classifier fitted to them.

Needs ``spacy==3.8.18``, the model ``en_core_web_sm`` 3.8.0 and the WebShop data (``WEBSHOP_DATA`` or ``SEEDBED_DATA``).
``--check`` instead fits on four fifths of the products and reports the agreement on the titles of the rest.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise

from seedbed.envs.webshop.catalogue import Product, read_products
from seedbed.envs.webshop.data import find_files
from seedbed.envs.webshop.nouns import FILE, features, split, title_key

Spans = list[tuple[int, int]]
EPOCHS, KEPT, SCALE, FOLDS = 6, 8_000, 100, 5


def tagger(model: str) -> Callable[[str], tuple[Spans, Spans]]:
    """Text -> (spans of its nouns, spans of all its words) by spaCy."""
    import spacy

    nlp = spacy.load(model)

    def tag(text: str) -> tuple[Spans, Spans]:
        words = [(word.idx, word.idx + len(word.text), word.pos_) for word in nlp(text)]
        return [(a, b) for a, b, kind in words if kind in ("NOUN", "PROPN")], [(a, b) for a, b, _ in words]

    return tag


def rows(text: str, tag: Callable[[str], tuple[Spans, Spans]]) -> list[tuple[list[str], bool]]:
    """(features, is a noun) of the words that spaCy and ``split`` cut alike."""
    found, known = map(set, tag(text))
    pieces = split(text)
    marks = features([word for word, _, _ in pieces])
    return [(m, (a, b) in found) for m, (_, a, b) in zip(marks, pieces, strict=True) if (a, b) in known]


def fit(texts: Sequence[list[tuple[list[str], bool]]]) -> dict[str, int]:
    """Averaged perceptron; the largest weights in hundredths."""
    now, summed = defaultdict(float), defaultdict(float)
    order, step, dice = list(texts), 1, random.Random(0)
    for _ in range(EPOCHS):
        dice.shuffle(order)
        for marks, noun in (row for text in order for row in text):
            sign = 1 if noun else -1
            if sign * sum(now[m] for m in marks) <= 0:
                for m in marks:
                    now[m] += sign
                    summed[m] += sign * step
            step += 1
    mean = {m: round(SCALE * (now[m] - summed[m] / step)) for m in now}
    return {m: mean[m] for m in sorted(sorted(mean, key=lambda m: (-abs(mean[m]), m))[:KEPT]) if mean[m]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="en_core_web_sm", help="name or directory of the spaCy model")
    parser.add_argument("--check", action="store_true", help="report held-out agreement, write nothing")
    arguments = parser.parse_args()
    tag = tagger(arguments.model)
    files = find_files("small")
    products: list[Product] = list(read_products(files.records(), *files.instructions()))
    texts = [[rows(text, tag) for text in (product.title, *product.features[:3])] for product in products]
    if arguments.check:
        bounds = [len(texts) * fold // FOLDS for fold in range(FOLDS + 1)]
        right = total = 0
        for low, high in pairwise(bounds):
            weights = fit([text for product in texts[:low] + texts[high:] for text in product])
            for title, *_ in texts[low:high]:
                guesses = [(sum(weights.get(m, 0) for m in marks) > 0) == noun for marks, noun in title]
                right, total = right + sum(guesses), total + len(guesses)
        print(f"{right} of {total} words of held-out titles: {right / total:.4f}")
        return
    titles = {title_key(p.title): [n for span in tag(p.title)[0] for n in span] for p in products}
    weights = fit([text for product in texts for text in product])
    FILE.write_text(json.dumps({"weights": weights, "titles": titles}, separators=(",", ":")))


if __name__ == "__main__":
    main()

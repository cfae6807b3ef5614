"""From a line of text as pixels to a string: around PP-OCRv4's recognizer, a CTC network."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.demo.picture import Picture, resize

Array = np.ndarray[Any, Any]
HEIGHT = 48
STEP = 8
"""Pixels to a column of the output."""


def feed(line: Picture) -> Array:
    """The recognizer's input ``f32[1, 3, 48, W]`` in [-1, 1]: the aspect is kept, W padded to full steps."""
    height, width = line.shape[:2]
    wide = max(STEP, round(width * HEIGHT / height))
    scaled = resize(line, HEIGHT, wide)[:, :, ::-1].astype(np.float32) / 127.5 - 1
    padded = np.zeros((1, 3, HEIGHT, -(-wide // STEP) * STEP), np.float32)
    padded[0, :, :, :wide] = scaled.transpose(2, 0, 1)
    return padded


def alphabet(characters: str) -> list[str]:
    """Classes by number from the model's own list: 0 is CTC's blank, the last is the space."""
    return ["", *characters.splitlines(), " "]


def text(scores: Array, classes: Sequence[str]) -> str:
    """The best path through ``scores`` f32[1, T, C]: repeats merged, blanks dropped (Graves et al., 2006)."""
    best = scores[0].argmax(axis=-1)
    return "".join(classes[number] for number, _ in itertools.groupby(best))

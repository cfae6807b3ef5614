"""Finds boxes of text in a picture with PP-OCRv4's detector.

The network gives each pixel's probability to be inside a shrunken line of text; boxes are grown back (Liao et
al., "Real-time Scene Text Detection with Differentiable Binarization", 2020). Only upright boxes are
supported, no rotated text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.demo.picture import Picture, resize

Array = np.ndarray[Any, Any]
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
SPREAD = np.array([0.229, 0.224, 0.225], np.float32)
"""Of ImageNet. PaddleOCR applies them to B, G, R in this order."""
STRIDE = 32
LONGEST = 960
"""Pictures with a longer side are shrunk to it."""
THRESHOLD = 0.3
BOX_THRESHOLD = 0.5
UNCLIP = 1.5
SMALLEST = 3
"""Boxes with a shorter side, in pixels of the map, are noise."""


@dataclass(frozen=True)
class Box:
    """Rows [top, bottom) and columns [left, right) of a picture."""

    top: int
    left: int
    bottom: int
    right: int

    def cut(self, picture: Picture) -> Picture:
        return picture[self.top : self.bottom, self.left : self.right]


def feed(picture: Picture) -> Array:
    """The detector's input ``f32[1, 3, H, W]``; H and W are multiples of 32."""
    height, width = picture.shape[:2]
    scale = min(1.0, LONGEST / max(height, width))
    sides = [max(STRIDE, round(side * scale / STRIDE) * STRIDE) for side in (height, width)]
    scaled = resize(picture, *sides)[:, :, ::-1].astype(np.float32) / 255
    return np.ascontiguousarray(((scaled - MEAN) / SPREAD).transpose(2, 0, 1)[None])


def boxes(scores: Array, height: int, width: int) -> list[Box]:
    """Boxes in reading order, in pixels of a ``height`` x ``width`` picture, from scores f32[1, 1, H, W]."""
    plane = scores[0, 0]
    down, across = height / plane.shape[0], width / plane.shape[1]
    found = []
    for box in components(plane > THRESHOLD):
        rows, columns = box.bottom - box.top, box.right - box.left
        if min(rows, columns) < SMALLEST or box.cut(plane).mean() < BOX_THRESHOLD:
            continue
        margin = rows * columns * UNCLIP / (2 * (rows + columns))
        found.append(
            Box(
                max(0, round((box.top - margin) * down)),
                max(0, round((box.left - margin) * across)),
                min(height, round((box.bottom + margin) * down)),
                min(width, round((box.right + margin) * across)),
            )
        )
    return in_reading_order(found)


def components(mask: Array) -> list[Box]:
    """The bounding boxes of the 8-connected components of ``mask`` bool[H, W]."""
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    parent = list(range(len(rows)))

    def root(run: int) -> int:
        while parent[run] != run:
            parent[run] = run = parent[parent[run]]
        return run

    above = 0
    for run, row in enumerate(rows):
        while above < run and (rows[above] < row - 1 or (rows[above] < row and ends[above] < starts[run])):
            above += 1
        touching = above
        while touching < run and rows[touching] < row and starts[touching] <= ends[run]:
            parent[root(touching)] = root(run)
            touching += 1
    groups: dict[int, list[int]] = {}
    for run in range(len(rows)):
        groups.setdefault(root(run), []).append(run)
    return [
        Box(int(rows[g].min()), int(starts[g].min()), int(rows[g].max()) + 1, int(ends[g].max()))
        for g in groups.values()
    ]


def in_reading_order(found: list[Box]) -> list[Box]:
    """Line by line from the top, from left to right; boxes are on one line if their middles are."""
    ordered: list[Box] = []
    waiting = sorted(found, key=lambda box: box.top)
    while waiting:
        first = waiting[0]
        line = [box for box in waiting if box.top < (first.top + first.bottom) / 2]
        ordered += sorted(line, key=lambda box: box.left)
        waiting = [box for box in waiting if box not in line]
    return ordered

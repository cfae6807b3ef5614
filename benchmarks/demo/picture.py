"""Pictures: drawn ones with known words, and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Picture = np.ndarray[Any, np.dtype[np.uint8]]

LINES = ("Graphs become kernels", "and one file runs them", "on 2 cores or 64")


def draw(lines: Sequence[str] = LINES, size: int = 40) -> Picture:
    """Black ``lines`` on white in Pillow's own font, ``size`` pixels high."""
    font = ImageFont.load_default(size)
    width = max(int(font.getlength(line)) for line in lines) + 2 * size
    image = Image.new("RGB", (width, (2 * len(lines) + 1) * size), "white")
    pen = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        pen.text((size, (2 * number + 1) * size), line, "black", font)
    return np.asarray(image)


def read(path: Path) -> Picture:
    """Reads a picture file as RGB."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def resize(picture: Picture, height: int, width: int) -> Picture:
    """Resizes with bilinear interpolation."""
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR))

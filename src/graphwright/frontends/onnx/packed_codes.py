"""Elements of fewer than 8 bits, which ONNX stores one after the other, the lowest bits of a byte first."""

from __future__ import annotations

import math

import numpy as np

from graphwright.ir.op import Array


def regrouped(codes: Array, old: int, new: int) -> Array:
    """The bits of ``codes``, of ``old`` bits each, as codes of ``new`` bits each, with zeros at the end."""
    group = math.lcm(old, new)
    word = np.uint8 if group == 8 else np.uint32
    rows = np.zeros((-(-codes.size * old // group), group // old), word)
    rows.reshape(-1)[: codes.size] = codes
    words = np.bitwise_or.reduce(rows << np.arange(0, group, old, dtype=word), axis=1)
    parts = words[:, None] >> np.arange(0, group, new, dtype=word)
    result: Array = (parts & word((1 << new) - 1)).astype(np.uint8).reshape(-1)
    return result

"""Import of ONNX Runtime's NGramHashMapping: hashes of the last tokens, which select rows of embeddings
(Engram).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import BitwiseXor, Mul, Or, added
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.mod import Mod
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Not
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where


def _import(i: OnnxImporter) -> Any:
    """Inputs: ids[B, T], a multiplier for each distance, the modulus of each head, and optionally the ids
    before [B, N - 1], offsets of the heads, the id that ends a text, and the segment of each id.

    For n from 2 to N, the last n ids times their multipliers are combined by exclusive or; each of the heads
    of n has the remainder.
    """
    longest, heads = int(i.required_attr("max_ngram_size")), int(i.required_attr("n_head_per_ngram"))
    if longest < 2 or heads < 1:
        raise i.fail(
            f"max_ngram_size is {longest} and n_head_per_ngram {heads}", hint="they must be at least 2 and 1"
        )
    ids, fill = i.input(0), _fill(i)
    batch, length = ids.type.dims
    past = i.optional(3)
    if past is None:
        past = i.emit(Expand((batch, longest - 1)), fill)
    joined = i.emit(Concat(1), past, ids)
    previous = [
        i.emit(Slice((longest - 1 - k,), (longest - 1 - k + length,), (1,), (1,)), joined)
        for k in range(longest)
    ]
    previous[1:] = _within_texts(i, previous, fill)
    mix = i.emit(Mul(), ids, _element(i, 1, 0))
    hashes = []
    for k in range(1, longest):
        mix = i.emit(BitwiseXor(), mix, i.emit(Mul(), previous[k], _element(i, 1, k)))
        moduli = i.emit(Slice(((k - 1) * heads,), (k * heads,), (0,), (1,)), i.input(2))
        hashes.append(i.emit(Mod(), i.emit(Unsqueeze((2,)), mix), moduli))
    y = added(i, i.emit(Concat(2), *hashes), i.optional(4))
    return y, i.emit(Slice((length,), (length + longest - 1,), (1,), (1,)), joined)


def _fill(i: Importer) -> Value:
    """The id, [1, 1], before the start of a text: the one that ends texts, or ``pad_id``."""
    end = i.optional(5)
    if end is not None:
        y: Value = i.emit(Reshape((1, 1)), end)
        return y
    return i.const(np.full((1, 1), int(i.attr("pad_id", 0)), i.input(0).type.dtype.numpy))


def _element(i: Importer, index: int, k: int) -> Value:
    y: Value = i.emit(Slice((k,), (k + 1,), (0,), (1,)), i.input(index))
    return y


def _within_texts(i: Importer, previous: list[Value], fill: Value) -> list[Value]:
    """The ids at distances 1, 2, ...; ``fill`` where a text or a segment ends between them and the token."""
    resets = bool(i.attr("reset_on_eos", 0)) and i.optional(5) is not None
    segments, found, ended = i.optional(6), [], None
    for k, value in enumerate(previous[1:], start=1):
        ends = [i.emit(Equal(), value, fill)] if resets else []
        if segments is not None:
            ends.append(_starts_segment(i, segments, k - 1))
        for end in ends:
            ended = end if ended is None else i.emit(Or(), ended, end)
        found.append(value if ended is None else i.emit(Where(), ended, fill, value))
    return found


def _starts_segment(i: Importer, segments: Value, distance: int) -> Value:
    """Whether the token ``distance`` before each one is the first of a segment, but not of all."""
    length = segments.type.dims[1]
    before = i.emit(Slice((0,), (1,), (1,), (1,)), segments)
    padded = i.emit(Concat(1), *[before] * (distance + 1), segments)
    here, last = (i.emit(Slice((k,), (k + length,), (1,), (1,)), padded) for k in (1, 0))
    y: Value = i.emit(Not(), i.emit(Equal(), here, last))
    return y


register_contrib(Mod, NGramHashMapping=ranked(_import))

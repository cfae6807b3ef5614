"""Import of ONNX Runtime's UnfoldTensor and NGramRepeatBlock."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.types import I64
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, Max
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.scatter_elements import ScatterElements
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Not
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where


def _windows(i: Importer, x: Value, axis: int, size: int, step: int) -> Value:
    """All windows of ``size`` along ``axis``, which counts them; a new last axis is that of a window."""
    rank = rank_of(x)
    starts = i.emit(Range((0, x.type.dims[axis] - size + 1, step)))
    rows = i.emit(Transpose((1, 0)), i.emit(Add(), i.const(np.arange(size)[:, None]), starts))
    order = [k for k in range(rank + 1) if k != axis + 1]
    y: Value = i.emit(Transpose((*order, axis + 1)), i.emit(Gather(axis), x, rows))
    return y


def _import_unfold(i: Importer) -> Value:
    x, axis = i.input(0), int(i.attr("dim", -1))
    rank = rank_of(x)
    if not -rank <= axis < rank:
        raise i.fail(f"dim {axis} is out of range for rank {rank}")
    return _windows(i, x, axis % rank, int(i.attr("size")), int(i.attr("step", 1)))


def _import_block(i: Importer) -> Value:
    """The scores[batch, vocabulary] of the next token; -inf where it would repeat ``ngram_size`` tokens of
    ids[batch, length].
    """
    ids, scores, size = i.input(0), i.input(1), int(i.attr("ngram_size"))
    length, none = ids.type.dims[1], i.const(np.asarray(0))
    windows = _windows(i, ids, 1, size, 1)
    before, token = (
        i.emit(Slice((start,), (end,), (2,), (1,)), windows)
        for start, end in ((0, size - 1), (size - 1, size))
    )
    recent = i.emit(Max(), i.emit(Range((length - size + 1, length, 1))), none)
    equal = i.emit(Equal(), before, i.emit(Unsqueeze((1,)), i.emit(Gather(1), ids, recent)))
    differences = i.emit(ReduceSum((2,)), i.emit(Cast(I64), i.emit(Not(), equal)))
    is_repeated = i.emit(Equal(), differences, none)
    blocked, free = (scalar(i, value, scores) for value in (-np.inf, np.inf))
    updates = i.emit(Squeeze((2,)), i.emit(Where(), is_repeated, blocked, free))
    y: Value = i.emit(ScatterElements(1, "min"), scores, i.emit(Squeeze((2,)), token), updates)
    return y


register_contrib(Gather, UnfoldTensor=ranked(_import_unfold))
register_contrib(ScatterElements, NGramRepeatBlock=ranked(_import_block))

"""Einsum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, product, symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.checks import NUMBERS, need_dtype, rank_of, same_dtype
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.references import like, quiet, widened
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.size_inference import number
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.records import dataclass

_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")
_ELLIPSIS = "0123456789"
"""The labels of the axes that an ellipsis denotes; fewer axes take the last ones."""


@dataclass(frozen=True)
class Terms:
    """The labels of each operand and of the result, one character per axis; ellipses are replaced
    by labels.
    """

    operands: tuple[str, ...]
    result: str


@op("Einsum")
class Einsum(Op):
    """Sums of products in Einstein notation, as in NumPy's ``einsum``: for example ``bij,bjk->bik``. Spaces
    in the equation are ignored.
    """

    equation: str

    def verify(self) -> None:
        text = self.equation.replace(" ", "")
        left, arrow, right = text.partition("->")
        terms = [*left.split(","), *([right] if arrow else [])]
        if not all(_TERM.fullmatch(term) for term in terms):
            raise InferError(f"{self.equation!r} is not an equation of labels, commas, ... and ->")
        if arrow and (len(set(right)) < len(right.replace("...", ".")) or not set(right) <= set(left)):
            raise InferError(
                f"{self.equation!r}: each label of the result must occur once, and in an operand"
            )

    def infer(self, at: Inference, *operands: Fact) -> TensorType:
        dtype = same_dtype(at, *operands)
        need_dtype(at, operands[0], NUMBERS, "the operand")
        sizes: dict[str, Dim] = {}
        terms = self.terms([operand.rank for operand in operands])
        for operand, labels in zip(operands, terms.operands, strict=True):
            for label, dim in zip(labels, operand.shape, strict=True):
                sizes[label] = at.broadcast_dim(sizes.get(label, 1), dim, f"label {label!r}")
        return TensorType(dtype, tuple(sizes[label] for label in terms.result))

    def terms(self, ranks: Sequence[int]) -> Terms:
        """The labels for operands of ``ranks``. Raises InferError if the equation does not fit them."""
        left, arrow, right = self.equation.replace(" ", "").partition("->")
        parts = left.split(",")
        if len(parts) != len(ranks):
            raise InferError(f"{self.equation!r} takes {len(parts)} operands, not {len(ranks)}")
        expanded, widest = [], 0
        for part, rank in zip(parts, ranks, strict=True):
            extra = rank - len(part.replace("...", ""))
            if extra < 0 or (extra and "..." not in part) or extra > len(_ELLIPSIS):
                raise InferError(f"{part!r} in {self.equation!r} does not fit an operand of {rank} axes")
            expanded.append(part.replace("...", _ELLIPSIS[len(_ELLIPSIS) - extra :]))
            widest = max(widest, extra)
        shared = _ELLIPSIS[len(_ELLIPSIS) - widest :]
        labels = "".join(expanded)
        once = "".join(sorted(c for c in set(labels) if labels.count(c) == 1 and c not in shared))
        return Terms(tuple(expanded), right.replace("...", shared) if arrow else shared + once)

    @quiet
    def reference(self, *operands: Array) -> Array:
        wide = [widened(operand) for operand in operands]
        result = np.einsum(self.equation.replace(" ", ""), *wide, optimize=len(wide) > 2)
        return np.ascontiguousarray(like(result, operands[0])).reshape(np.shape(result))

    def decompose(self, b: Builder, *operands: Value) -> Value | None:
        """Matrix products of two operands at a time, from left to right; None for a diagonal of symbolic
        size.
        """
        terms = self.terms([rank_of(operand) for operand in operands])
        sizes = _sizes(operands, terms)
        twice = [label for labels in terms.operands for label in labels if labels.count(label) > 1]
        if not all(isinstance(sizes[label], int) for label in twice):
            return None
        parts = [
            _dense(b, *_diagonal(b, operand, labels), sizes)
            for operand, labels in zip(operands, terms.operands, strict=True)
        ]
        value, labels = parts[0]
        for position in range(1, len(parts)):
            later = "".join(labels for _, labels in parts[position + 1 :]) + terms.result
            value, labels = _multiply(b, (value, labels), parts[position], later)
        value, labels = _sum_out(b, value, labels, terms.result)
        return _ordered(b, value, labels, terms.result)


def _sizes(operands: Sequence[Value], terms: Terms) -> dict[str, Dim]:
    """The size of each label; axes of size 1 broadcast."""
    sizes: dict[str, Dim] = {}
    for operand, labels in zip(operands, terms.operands, strict=True):
        for label, dim in zip(labels, operand.type.dims, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = dim
    return sizes


def _diagonal(b: Builder, value: Value, labels: str) -> tuple[Value, str]:
    """Replaces two axes of the same label by their diagonal: every (n + 1)-th element of both as one axis."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, second = [axis for axis, other in enumerate(labels) if other == label][:2]
            dims = value.type.dims
            if dims[first] != dims[second] and 1 in (dims[first], dims[second]):  # broadcasts
                one = first if dims[first] == 1 else second
                value = reshaped(b, value, dims[:one] + dims[one + 1 :])
                labels = labels[:one] + labels[one + 1 :]
                continue
            rest = [axis for axis in range(len(labels)) if axis not in (first, second)]
            kept, size = tuple(dims[axis] for axis in rest), number(dims[first])
            if (first, second) != (len(rest), len(rest) + 1):
                value = b(Transpose((*rest, first, second)), value)
            value = reshaped(b, value, (*kept, size * size))
            value = b(Slice((0,), (size * size,), (len(rest),), (size + 1,)), value)
            labels = "".join(labels[axis] for axis in rest) + label
    return value, labels


def _dense(b: Builder, value: Value, labels: str, sizes: dict[str, Dim]) -> tuple[Value, str]:
    """``value`` without the axes of size 1 that broadcast to a larger size."""
    dims = value.type.dims
    kept = [axis for axis, label in enumerate(labels) if dims[axis] != 1 or sizes[label] == 1]
    if len(kept) == len(labels):
        return value, labels
    dense = reshaped(b, value, tuple(dims[axis] for axis in kept))
    return dense, "".join(labels[axis] for axis in kept)


def _sum_out(b: Builder, value: Value, labels: str, kept: str) -> tuple[Value, str]:
    """Sum over the labels that are not in ``kept``."""
    gone = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    if not gone:
        return value, labels
    return b(ReduceSum(gone, keepdims=False), value), "".join(label for label in labels if label in kept)


def _ordered(b: Builder, value: Value, labels: str, order: str) -> Value:
    perm = tuple(labels.index(label) for label in order)
    if perm == tuple(range(len(perm))):
        return value
    result: Value = b(Transpose(perm), value)
    return result


def _multiply(b: Builder, left: tuple[Value, str], right: tuple[Value, str], later: str) -> tuple[Value, str]:
    """The product of two operands, summed over all labels that ``later`` does not contain: the labels of
    later operands and of the result.
    """
    x, x_labels = _sum_out(b, *left, later + right[1])
    y, y_labels = _sum_out(b, *right, later + left[1])
    shared = [label for label in x_labels if label in y_labels]
    batch = "".join(label for label in shared if label in later)
    inner = "".join(label for label in shared if label not in later)
    rows = "".join(label for label in x_labels if label not in shared)
    columns = "".join(label for label in y_labels if label not in shared)
    sizes = dict(zip(x_labels, x.type.dims, strict=True)) | dict(zip(y_labels, y.type.dims, strict=True))
    a = _matrix(b, _ordered(b, x, x_labels, batch + rows + inner), sizes, batch, rows, inner)
    c = _matrix(b, _ordered(b, y, y_labels, batch + inner + columns), sizes, batch, inner, columns)
    labels = batch + rows + columns
    dims = tuple(sizes[label] for label in labels)
    return reshaped(b, b(MatMul(), a, c), dims), labels


def _matrix(b: Builder, value: Value, sizes: dict[str, Dim], batch: str, rows: str, columns: str) -> Any:
    """``value[batch..., rows..., columns...]`` with all row axes merged into one, and all column axes."""
    dims = (
        *(sizes[label] for label in batch),
        product([sizes[label] for label in rows]),
        product([sizes[label] for label in columns]),
    )
    return reshaped(b, value, dims)


def _import(i: Importer) -> Any:
    return i.emit(Einsum(str(i.required_attr("equation"))), *i.inputs())


Einsum.onnx = {("Einsum", 12): _import}
Einsum.to_onnx = as_onnx("Einsum", equation="equation")
_N, _K = symbol("N"), symbol("K")
Einsum.samples = (
    *(Sample(Einsum("ij,jk->ik"), (arg(t, 3, 4), arg(t, 4, 5))) for t in (F32, F64, F16, I32)),
    Sample(Einsum("bij, bjk -> bik"), (arg(F32, 2, 3, 4), arg(F32, 2, 4, 5))),
    Sample(Einsum("bhid,bhjd->bhij"), (arg(F32, 2, 3, _N, 4), arg(F32, 2, 3, _K, 4))),
    Sample(Einsum("bthd,bshd->bhts"), (arg(F32, 2, 3, 4, 5), arg(F32, 2, 6, 4, 5))),
    Sample(Einsum("...ij,...jk"), (arg(F32, 2, 7, 3, 4), arg(F32, 2, 7, 4, 5))),
    Sample(Einsum("...ij,...jk->...ik"), (arg(F32, 2, 1, 3, 4), arg(F32, 7, 4, 5))),
    Sample(Einsum("ij->ji"), (arg(F32, 3, 4),)),
    Sample(Einsum("ij->"), (arg(F32, 3, 4),)),
    Sample(Einsum("ba"), (arg(F32, 3, 4),)),
    Sample(Einsum("ii->i"), (arg(F32, 3, 3),)),
    Sample(Einsum("ii"), (arg(F32, 3, 3),)),
    Sample(Einsum("i,j->ij"), (arg(F32, 3), arg(F32, 4))),
    Sample(Einsum("i,i"), (arg(F32, 5), arg(F32, 5))),
    Sample(Einsum("ij,ij->ij"), (arg(F32, 3, 4), arg(F32, 3, 4))),
    Sample(Einsum("abc,cd->d"), (arg(F32, 2, 3, 4), arg(F32, 4, 5))),
    Sample(Einsum("ij,jk,kl->il"), (arg(F32, 2, 3), arg(F32, 3, 4), arg(F32, 4, 5))),
    Sample(Einsum("ij,jk->ik"), (arg(F32, 3, 0), arg(F32, 0, 5))),
    Sample(Einsum("ij,jk->ik"), (arg(F32, 3, 4), arg(F32, 5, 6)), "label 'j': 4 and 5 differ"),
    Sample(Einsum("ij,jk->ik"), (arg(F32, 3, 4),), "takes 2 operands, not 1"),
    Sample(Einsum("ij->i"), (arg(F32, 3),), "does not fit an operand of 1 axes"),
    Sample(Einsum("ij->k"), (arg(F32, 3, 4),), "occur once, and in an operand"),
    Sample(Einsum("i1->i"), (arg(F32, 3, 4),), "is not an equation of labels"),
)

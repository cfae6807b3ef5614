"""Reshape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS, Blocked, BlockedForm, can_be_blocked
from graphwright.ir.op import (
    Array,
    AtenImporter,
    Fact,
    Importer,
    Inference,
    InferError,
    Op,
    Sample,
    Trait,
    arg,
    op,
)
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, Expr, floordiv, mod, numbers, product, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.checks import need_sizes
from graphwright.ops.core.size_inference import cancel, known_dims, known_parts, with_moved_elements


@op("Reshape")
class Reshape(BlockedForm, Op):
    """The elements of the input, in row-major order, in another shape.

    ``shape`` (operand 1 if None) must have the same number of elements. A 0 copies the size of the same axis
    of the input, unless ``allow_zero`` is set; one size may be -1, and is inferred from the others.
    """

    shape: tuple[Dim, ...] | None = None
    allow_zero: bool = False
    traits = Trait.VIEW

    def verify(self) -> None:
        if self.shape is not None and self.shape.count(-1) > 1:
            raise InferError(f"{list(self.shape)} has more than one -1")

    def fold_operands(self, x: Fact, shape: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        if self.shape is not None or shape is None:
            return None
        dims = known_dims(shape)
        if dims is None and x.type.shape is not None:
            dims = _infer_unknown(shape.partial_elements)
        return None if dims is None else (Reshape(dims, self.allow_zero), (0,))

    def infer(self, at: Inference, x: Fact, shape: Fact | None = None) -> TensorType | Fact:
        if self.shape is None:
            need_sizes(at, shape, "the shape")
            return TensorType(x.dtype, tuple(_known_size(at, part) for part in known_parts(shape)))
        return with_moved_elements(self, TensorType(x.dtype, self._sizes(at, x.shape, self.shape)), x)

    def blocked_form(self, node: Node, operands: Sequence[Value | None], lanes: int) -> Blocked | str:
        """A reshape of the spatial axes of an image does not move its blocks of channels."""
        x, y = operands[0], node.output
        if x is None or len(operands) > 1 or not can_be_blocked(x) or not can_be_blocked(y):
            return "operand and result are not both images"
        kept = x.type.dims[: CHANNELS + 1] == y.type.dims[: CHANNELS + 1]
        return Blocked() if kept else "it reshapes the channels"

    def _sizes(self, at: Inference, dims: tuple[Dim, ...], target: tuple[Dim, ...]) -> tuple[Dim, ...]:
        sizes = [self._copied(at, dims, axis) if d == 0 else d for axis, d in enumerate(target)]
        others = [d for d in sizes if d != -1]
        if any(isinstance(d, int) and d < 0 for d in others):
            raise at.fail(f"sizes of {list(target)} must be positive, 0 or -1")
        have, want = cancel(dims, others)
        if -1 not in sizes:
            if all(isinstance(d, int) for d in (*dims, *others)):
                have, want = list(dims), others
            if 0 not in dims or 0 not in others:  # else both are empty
                at.equal(
                    product(have), product(want), f"numbers of elements of {list(dims)} and {list(sizes)}"
                )
            return tuple(sizes)
        if 0 in want:
            raise at.fail(f"{list(target)}: -1 cannot be inferred, because another size is 0")
        rest = _quotient(at, product(have), product(want), dims, target)
        return tuple(rest if d == -1 else d for d in sizes)

    def _copied(self, at: Inference, dims: tuple[Dim, ...], axis: int) -> Dim:
        if self.allow_zero:
            return 0
        if axis >= len(dims):
            raise at.fail(
                f"size {axis} is 0, which copies axis {axis} of the input, but the input has {len(dims)} axes"
            )
        return dims[axis]

    def reference(self, x: Array) -> Array:
        assert self.shape is not None
        copy = not self.allow_zero
        sizes = [x.shape[k] if d == 0 and copy else d for k, d in enumerate(numbers(self.shape))]
        if -1 in sizes and not x.size:  # NumPy does not infer a size of empty arrays
            have, want = cancel(x.shape, [size for size in sizes if size != -1])
            if 0 not in want:
                sizes[sizes.index(-1)] = prod(numbers(have)) // prod(numbers(want))
        return x.reshape(sizes)


def reshaped(b: Builder, x: Value, dims: tuple[Dim, ...]) -> Value:
    """``x`` in the shape ``dims``, in which 0 is a size; ``x`` itself if it has this shape."""
    if x.type.shape == dims:
        return x
    may_be_empty = not all(isinstance(dim, int) and dim > 0 for dim in dims)
    result: Value = b(Reshape(dims, allow_zero=may_be_empty), x)
    return result


def _infer_unknown(parts: tuple[Dim | None, ...] | None) -> tuple[Dim, ...] | None:
    """``parts`` with -1 for the unknown size; None unless exactly one size is unknown and no other is 0 or
    -1.
    """
    if parts is None or parts.count(None) != 1 or 0 in parts or -1 in parts:
        return None
    return tuple(-1 if part is None else part for part in parts)


def _known_size(at: Inference, part: Dim | None) -> Dim:
    """A size of the result: a new symbol if it is unknown, copied (0) or inferred (-1)."""
    return at.symbols.fresh("reshaped") if part is None or part in (0, -1) else part


def _quotient(at: Inference, total: Dim, part: Dim, dims: tuple[Dim, ...], target: tuple[Dim, ...]) -> Dim:
    """``total / part``. The division must be exact: this is proved, or becomes a constraint; otherwise
    InferError.
    """
    if mod(total, part) == 0:
        return floordiv(total, part)
    return at.divide(total, part, f"the number of elements of {list(dims)}, for the shape {list(target)}")


def _import(i: Importer) -> Any:
    return i.emit(Reshape(allow_zero=bool(i.attr("allowzero", 0))), i.input(0), i.input(1))


def _export(e: Exporter, op: Reshape, x: Value, *shape: Value) -> Any:
    """ONNX copies the size of an axis where the shape has 0, and infers one size where it has -1. A symbolic
    size that equals that of the same axis of the input becomes 0. If one symbolic size remains, it becomes
    -1, unless a copied size may be 0 in a run, as engines do not infer a size beside a 0. Otherwise the
    export inserts or removes axes of size 1, or computes all sizes at run time, where 0 is a size
    (``allowzero``).
    """
    if op.shape is None:
        return e.emit("Reshape", x, *shape, allowzero=op.allow_zero)
    known = x.type.shape or ()
    dims, exact = list(op.shape), list(op.shape)
    if not op.allow_zero:
        exact = [known[k] if d == 0 and k < len(known) else d for k, d in enumerate(dims)]
    if not op.allow_zero or 0 not in dims:
        dims = [0 if isinstance(d, Expr) and known[k : k + 1] == (d,) else d for k, d in enumerate(dims)]
        computed = [k for k, d in enumerate(dims) if isinstance(d, Expr)]
        if len(computed) == 1 and not {-1, 0} & set(dims):
            dims[computed[0]], computed = -1, []
        if not computed or -1 in dims:
            return e.emit("Reshape", x, e.sizes(dims))
    if (inserted := _inserted(known, exact)) is not None:
        return e.emit("Unsqueeze", x, e.sizes(inserted))
    if (removed := _inserted(exact, known)) is not None:
        return e.emit("Squeeze", x, e.sizes(removed))
    return e.emit("Reshape", x, e.sizes(exact), allowzero=1)


def _inserted(dims: Sequence[Dim], target: Sequence[Dim]) -> list[Dim] | None:
    """The axes of size 1 that ``target`` has in addition to ``dims``; None if that is not all."""
    rest, axes = list(dims), list[Dim]()
    for axis, size in enumerate(target):
        if rest and size == rest[0]:
            rest.pop(0)
        elif size == 1:
            axes.append(axis)
        else:
            return None
    return None if rest else axes


Reshape.to_onnx = _export
Reshape.onnx = {("Reshape", 5): _import}
_N, _H = symbol("N"), symbol("H")
Reshape.samples = (
    Sample(Reshape((2, -1)), (arg(F32, 4, 3),)),
    Sample(Reshape((0, -1, 4)), (arg(F32, 3, 2, 8),)),
    Sample(Reshape((-1, 6)), (arg(F32, _N, 2, 3),)),
    Sample(Reshape((0, -1)), (arg(F32, _N, _H, 4),)),
    Sample(Reshape((-1,)), (arg(F32),)),
    Sample(Reshape(()), (arg(F32, 1, 1),)),
    Sample(Reshape((0, 5), allow_zero=True), (arg(F32, 3, 0),)),
    Sample(Reshape((0, -1)), (arg(F32, 0, 2, 3),)),
    Sample(Reshape(), (arg(F32, 2, 6), arg(I64, 3, values=(3, 2, -1)))),
    Sample(Reshape((2, 2)), (arg(I64, 4, values=(1, 2, 3, 4)),)),
    Sample(Reshape((2, 5)), (arg(F32, 4, 3),), "12 and 10 differ"),
    Sample(Reshape((5, -1)), (arg(F32, 4, 3),), "for the shape [5, -1]: 12 is not a multiple of 5"),
    Sample(Reshape((-1, -1)), (arg(F32, 4, 3),), "has more than one -1"),
    Sample(Reshape((1, 1, 0)), (arg(F32, 4, 3),), "but the input has 2 axes"),
    Sample(Reshape((0, 0, -1), allow_zero=True), (arg(F32, 0, 3),), "because another size is 0"),
    Sample(Reshape(), (arg(F32, 4, 3), arg(F32, 2)), "the shape is f32; it must be i32 or i64"),
)


def _aten_view(i: AtenImporter) -> Any:
    i.ignore("size", "shape")
    return i.emit(Reshape(i.results[0].dims, allow_zero=True), i.input(0))


Reshape.aten = dict.fromkeys(("view", "_unsafe_view", "reshape"), _aten_view)

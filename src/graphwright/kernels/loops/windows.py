"""Generated kernels for sliding windows, for any float dtype and number of spatial axes: what library kernels
do not support.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node, Value
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Const,
    Index,
    Kind,
    Let,
    Level,
    Load,
    Loop,
    Position,
    Ref,
    Scalar,
    Statement,
    Store,
    apply,
    select,
)
from graphwright.ir.symbols import Dim, floordiv, mod, product, symbol
from graphwright.ir.types import BOOL, F32, F64, I32, I64, DType
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch
from graphwright.kernels.loops.kernel_builder import KernelBuilder, nest
from graphwright.kernels.strides import row_major_strides
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.col2im import Col2Im
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.conv_weight_gradient import ConvWeightGradient
from graphwright.ops.nn.lp_pool import LpPool
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.spatial import Pool, Windows
from graphwright.records import dataclass


@dataclass(frozen=True)
class _Tap:
    """One tap of a window: its index along the spatial axes, and whether it is inside the input."""

    index: tuple[Dim, ...]
    inside: Scalar


@dataclass(frozen=True)
class _Slide:
    """Names of loop axes: ``n`` images, ``m`` channels, ``o`` positions in the result, ``k`` taps."""

    builder: KernelBuilder
    windows: Windows
    sizes: tuple[Dim, ...]
    """The sizes of the input's spatial axes, in the kernel's sizes."""
    counts: tuple[Dim, ...] = ()
    """The number of windows along each axis, as far as it is known."""

    @property
    def positions(self) -> tuple[Dim, ...]:
        return tuple(symbol(f"o{axis}") for axis in range(self.windows.rank))

    @property
    def taps(self) -> tuple[Dim, ...]:
        return tuple(symbol(f"k{axis}") for axis in range(self.windows.rank))

    def read(self) -> _Tap:
        """The element that tap ``k`` of window ``o`` reads."""
        window, index = self.windows, []
        for axis, (o, k) in enumerate(zip(self.positions, self.taps, strict=True)):
            start = o * window.strides[axis] - self.builder.size(window.pads[axis])
            index.append(start + k * window.dilations[axis])
        outside = [axis for axis in range(window.rank) if not self.stays_inside(axis)]
        return _Tap(tuple(index), _all([test for axis in outside for test in self.tests(axis, index[axis])]))

    def stays_inside(self, axis: int) -> bool:
        """Whether all windows along ``axis`` are inside the input."""
        window = self.windows
        if not self.counts or window.pads[axis] != 0:
            return False
        reach = (self.counts[axis] - 1) * window.strides[axis]
        left = self.sizes[axis] - reach - (window.kernel[axis] - 1) * window.dilations[axis]
        return isinstance(left, int) and left > 0

    def spread(self) -> _Tap:
        """The element that tap ``k`` of a transposed convolution adds to position ``o`` of the result."""
        window, index, whole = self.windows, [], []
        for axis, (o, k) in enumerate(zip(self.positions, self.taps, strict=True)):
            position = o + self.builder.size(window.pads[axis]) - k * window.dilations[axis]
            stride = window.strides[axis]
            index.append(floordiv(position, stride))
            if stride != 1:
                whole.append(apply("eq", Position(mod(position, stride)), Const(0, I64)))
        return _Tap(tuple(index), _all([self.within(index), *whole]))

    def within(self, index: Sequence[Dim], margin: Sequence[tuple[Dim, Dim]] = ()) -> Scalar:
        """The condition that ``index`` is inside the input, extended by ``margin`` (before, after)."""
        margins = margin or [(0, 0)] * len(index)
        return _all([test for axis, i in enumerate(index) for test in self.tests(axis, i, *margins[axis])])

    def tests(self, axis: int, index: Dim, before: Dim = 0, behind: Dim = 0) -> list[Scalar]:
        """The conditions that ``index`` is inside ``axis``."""
        return [Position(-before) <= Position(index), Position(index) < Position(self.sizes[axis] + behind)]

    def over_taps(self, *body: Statement, channels: Dim | None = None) -> Loop:
        """Loops over the taps, inside a loop over ``channels`` if given."""
        axes = [(f"k{axis}", self.builder.size(size)) for axis, size in enumerate(self.windows.kernel)]
        if channels is not None:
            axes.insert(0, ("c", channels))
        return nest(axes, *body, outer=Kind.SERIAL, innermost=Kind.SERIAL)

    def over_positions(self, shape: Sequence[Dim], *body: Statement) -> Loop:
        """Loops over a result of ``shape``; the last axis is the vector."""
        names = ("n", "m", *(f"o{axis}" for axis in range(self.windows.rank)))
        return nest(tuple(zip(names, map(self.builder.size, shape), strict=True)), *body)


def _all(tests: Sequence[Scalar]) -> Scalar:
    result: Scalar = Const(value=True, dtype=BOOL)
    for k, test in enumerate(tests):
        result = test if k == 0 else apply("and", result, test)
    return result


def _register(name: str, dtype: DType) -> Buffer:
    return Buffer(name, dtype, (), Level.REGISTER)


def _unsupported(dtype: DType, context: Context) -> str | None:
    has_code = context.target.has_code(dtype) and dtype.computed == dtype
    return None if has_code else f"no window kernel for {dtype}"


@candidate(Conv, ConvTranspose)
def convolution(node: Node[Conv | ConvTranspose], context: Context) -> Launch | str:
    """Computes each element of the result separately, as a sum over channels and taps."""
    op, x, w, y = node.op, node.operand(0), node.operand(1), node.output
    dtype = x.type.dtype
    if refusal := _unsupported(dtype, context):
        return refusal
    if isinstance(op, Conv) and op.precision is not None:
        return f"its operands are rounded to {op.precision}"
    builder = KernelBuilder(node, context)
    slide = _Slide(builder, op.windows(w.type.dims[2:]), tuple(map(builder.size, x.type.dims[2:])))
    n, m, c = symbol("n"), symbol("m"), symbol("c")
    forward = isinstance(op, Conv)
    channels = builder.size(w.type.dims[1] if forward else floordiv(w.type.dims[0], op.group))
    features = builder.size(floordiv(w.type.dims[0], op.group) if forward else w.type.dims[1])
    channel = floordiv(m, features) * channels + c
    tap = slide.read() if forward else slide.spread()
    weight_at = (m, c, *slide.taps) if forward else (channel, mod(m, features), *slide.taps)
    element = Load(builder.input(x, x.type.dims), (n, channel, *tap.index), tap.inside)
    weight = Load(builder.input(w, w.type.dims), weight_at)
    total = _register("total", dtype)
    terms = slide.over_taps(Accumulate(total, (), "add", element * weight), channels=channels)
    result: Scalar = Load(total, ())
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        result = result + Load(builder.input(node.operand(2), y.type.dims[1:2]), (m,))
    store = Store(builder.output(y, y.type.dims), (n, m, *slide.positions), result)
    body = slide.over_positions(y.type.dims, Alloc(total, 0), terms, store)
    return builder.launch(body)


@candidate(ConvWeightGradient)
def weight_gradient(node: Node[ConvWeightGradient], context: Context) -> Launch | str:
    """Computes each element of the gradient separately, as a sum over images and windows."""
    op, x, dy, dw = node.op, node.operand(0), node.operand(1), node.output
    dtype = x.type.dtype
    if refusal := _unsupported(dtype, context):
        return refusal
    builder = KernelBuilder(node, context)
    slide = _Slide(builder, op.windows, tuple(map(builder.size, x.type.dims[2:])), dy.type.dims[2:])
    tap, n, m, c = slide.read(), symbol("n"), symbol("m"), symbol("c")
    features, channels = (builder.size(floordiv(each.type.dims[1], op.group)) for each in (dy, x))
    channel = floordiv(m, features) * channels + c
    element = Load(builder.input(x, x.type.dims), (n, channel, *tap.index), tap.inside)
    gradient = Load(builder.input(dy, dy.type.dims), (n, m, *slide.positions))
    total = _register("total", dtype)
    counts = [("n", builder.size(dy.type.dims[0]))]
    counts += [(f"o{axis}", builder.size(size)) for axis, size in enumerate(dy.type.dims[2:])]
    terms = nest(
        counts,
        Accumulate(total, (), "add", element * gradient),
        outer=Kind.SERIAL,
        innermost=Kind.SERIAL,
    )
    store = Store(builder.output(dw, dw.type.dims), (m, c, *slide.taps), Load(total, ()))
    names = ("m", "c", *(f"k{axis}" for axis in range(slide.windows.rank)))
    results = tuple(zip(names, map(builder.size, dw.type.dims), strict=True))
    return builder.launch(nest(results, Alloc(total, 0), terms, store))


@candidate(AveragePool, LpPool)
def folding_pool(node: Node[AveragePool | LpPool], context: Context) -> Launch | str:
    """Computes each element of the result separately, as a sum over the taps inside the input (of powers for
    LpPool).
    """
    op, x, y = node.op, node.operand(0), node.output
    dtype = x.type.dtype
    if refusal := _unsupported(dtype, context):
        return refusal
    builder = KernelBuilder(node, context)
    slide = _slide(op, x, y, builder)
    tap = slide.read()
    mask = None if tap.inside == Const(value=True, dtype=BOOL) else tap.inside
    element = Load(builder.input(x, x.type.dims), (symbol("n"), symbol("m"), *tap.index), mask)
    total, count = _register("total", dtype), _register("count", dtype)
    folds: list[Statement] = [Accumulate(total, (), "add", _power(op, element))]
    allocations: list[Statement] = [Alloc(total, 0)]
    result: Scalar = Load(total, ())
    if isinstance(op, AveragePool):
        rank, pads = slide.windows.rank, slide.windows.pads
        margins = [(builder.size(pads[a]), builder.size(pads[a + rank])) for a in range(rank)]
        counted = slide.within(tap.index, margins) if op.include_pads else tap.inside
        folds.append(Accumulate(count, (), "add", select(counted, Const(1, dtype), Const(0, dtype))))
        allocations.append(Alloc(count, 0))
        result = result / apply("max", Load(count, ()), Const(1, dtype))  # a window that is all padding is 0
    elif op.p != 1:
        result = apply("sqrt", result) if op.p == 2 else apply("pow", result, Const(1 / op.p, dtype))
    store = Store(builder.output(y, y.type.dims), (symbol("n"), symbol("m"), *slide.positions), result)
    body = slide.over_positions(y.type.dims, *allocations, slide.over_taps(*folds), store)
    return builder.launch(body)


def _power(op: AveragePool | LpPool, element: Scalar) -> Scalar:
    if isinstance(op, AveragePool):
        return element
    size = apply("abs", element)
    return size if op.p == 1 else size * size if op.p == 2 else apply("pow", size, Const(op.p, element.dtype))


def _slide(op: Pool, x: Value, y: Value, builder: KernelBuilder) -> _Slide:
    return _Slide(builder, op.windows, tuple(map(builder.size, x.type.dims[2:])), y.type.dims[2:])


def _sums_blocks(node: Node[Col2Im]) -> bool:
    """Whether to sum blocks for each pixel. Blocks with gaps are scattered instead, as a sum would test every
    term.
    """
    op, dtype = node.op, node.operand(0).type.dtype
    known = op.image is not None and op.block is not None
    return known and set(op.windows.strides) == {1} and dtype in (F32, F64, I32, I64)


@candidate(Col2Im, serves=_sums_blocks)
def column_to_image(node: Node[Col2Im], context: Context) -> Launch | str:
    """Computes each pixel separately, as a sum over the blocks that cover it."""
    op, x, y = node.op, node.operand(0), node.output
    assert op.image is not None
    builder, window = KernelBuilder(node, context), op.windows
    counts = window.counts(op.image)
    slide = _Slide(builder, window, tuple(map(builder.size, counts)))
    tap, total = slide.spread(), _register("total", x.type.dtype)
    blocks = builder.input(x, (*y.type.dims[:2], *window.kernel, *counts))
    element = Load(blocks, (symbol("n"), symbol("m"), *slide.taps, *tap.index), tap.inside)
    terms = slide.over_taps(Accumulate(total, (), "add", element))
    store = Store(
        builder.output(y, y.type.dims), (symbol("n"), symbol("m"), *slide.positions), Load(total, ())
    )
    body = slide.over_positions(y.type.dims, Alloc(total, 0), terms, store)
    return builder.launch(body)


@candidate(MaxPool)
def max_pool(node: Node[MaxPool], context: Context) -> Launch | str:
    """Tracks the maximum and its index; -1 means none."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    dtype = x.type.dtype
    if refusal := _unsupported(dtype, context):
        return refusal
    builder = KernelBuilder(node, context)
    slide = _slide(op, x, y, builder)
    tap, n, m = slide.read(), symbol("n"), symbol("m")
    lowest = float("-inf") if dtype.is_float else -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
    element = Load(builder.input(x, x.type.dims), (n, m, *tap.index), tap.inside)
    best, where = _register("best", dtype), _register("where", I64)
    value, old, position = Ref("value", dtype), Load(best, ()), Load(where, ())
    newer = apply("or", position < Const(0, I64), old < value)
    if dtype.is_float:
        newer = apply("or", newer, apply("and", apply("isnan", value), apply("not", apply("isnan", old))))
    better = Ref("better", BOOL)
    flat = _flat(slide, builder.size(x.type.dims[1]), tap.index, op.column_major)
    fold = slide.over_taps(
        Let("value", element),
        Let("better", apply("and", tap.inside, newer)),
        Store(best, (), select(better, value, old)),
        Store(where, (), select(better, Position(flat), position)),
    )
    index: tuple[Index, ...] = (n, m, *slide.positions)
    stores = [Store(builder.output(y, y.type.dims), index, Load(best, ()))]
    if op.indices:
        stores.append(Store(builder.output(node.outputs[1], y.type.dims), index, Load(where, ())))
    body = slide.over_positions(y.type.dims, Alloc(best, lowest), Alloc(where, -1), fold, *stores)
    return builder.launch(body)


def _flat(slide: _Slide, channels: Dim, index: Sequence[Dim], column_major: bool) -> Dim:
    """The index in the whole input; with ``column_major``, the first spatial axis varies fastest."""
    sizes = slide.sizes[::-1] if column_major else slide.sizes
    inner: Dim = 0
    for step, i in zip(row_major_strides(tuple(sizes)), index[::-1] if column_major else index, strict=True):
        inner = inner + step * i
    return (symbol("n") * channels + symbol("m")) * product(tuple(slide.sizes)) + inner

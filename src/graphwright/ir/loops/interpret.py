"""An interpreter of kernels in NumPy. It defines their meaning: generated code must have the same results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from graphwright.errors import Diagnostic, VerifyError
from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Apply,
    Bits,
    Buffer,
    Call,
    Cast,
    Const,
    Index,
    Kernel,
    Kind,
    Let,
    Load,
    Loop,
    Position,
    Ref,
    Scalar,
    Statement,
    Store,
    Tile,
)
from graphwright.ir.loops.text import print_statement
from graphwright.ir.symbols import Dim, Function, Symbol, evaluate
from graphwright.records import dataclass, field

Array = np.ndarray[Any, Any]
COMBINERS = ("add", "mul", "max", "min", "and", "or")
"""The functions that :class:`Accumulate` can use: they are associative and commutative."""


def interpret(
    kernel: Kernel, buffers: dict[str, Array], sizes: dict[str, int], scalars: Sequence[float] = ()
) -> None:
    """Runs ``kernel`` on ``buffers``, an array for each parameter, and writes the outputs in place.

    Each statement of a vector loop is evaluated for all iterations at once. Raises :class:`VerifyError` with
    the text of the statement if an index is out of bounds, a name is not bound, or an array does not match
    its parameter.
    """
    state = _State({name: np.asarray(size) for name, size in sizes.items()})
    state.values.update(zip(kernel.scalars, np.asarray(scalars, np.float32), strict=True))
    for parameter in kernel.parameters:
        array = buffers.get(parameter.name)
        shape = tuple(evaluate(d, sizes) for d in parameter.shape)
        if array is None or array.shape != shape or array.dtype != parameter.dtype.numpy:
            found = "missing" if array is None else f"{array.dtype}{list(array.shape)}"
            _fail(f"{parameter.name} must be {parameter.dtype}{list(shape)}, but is {found}", kernel.name)
        state.arrays[parameter.name] = array
    _run(kernel.body, state)


@dataclass(frozen=True)
class _State:
    """The names in scope. Every enclosing vector loop is a dimension of every value, the innermost loop
    first.
    """

    axes: dict[str, Array]
    arrays: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    lanes: tuple[int, ...] = ()
    """Extents of the enclosing vector loops, innermost first."""
    depth: dict[str, int] = field(default_factory=dict)
    """For each buffer, the number of vector loops around its allocation: each iteration has its own copy."""

    def scope(self) -> _State:
        return _State(dict(self.axes), dict(self.arrays), dict(self.values), self.lanes, dict(self.depth))


def _fail(message: str, where: str) -> NoReturn:
    raise VerifyError(Diagnostic("loop-interpret", message, where))


def _run(body: tuple[Statement, ...], state: _State) -> None:
    for statement in body:
        if isinstance(statement, Loop):
            _loop(statement, state)
            continue
        try:
            _simple(statement, state)
        except (IndexError, KeyError, ValueError, TypeError) as error:
            _fail(f"{type(error).__name__}: {error}", print_statement(statement))


def _loop(loop: Loop, state: _State) -> None:
    positions = range(0, int(_dim(loop.extent, state)), loop.step)
    if loop.kind is Kind.VECTOR:
        inner = state.scope()
        lanes = (len(positions), *state.lanes)
        axis = np.asarray(positions, np.int64).reshape(-1, *[1] * len(state.lanes))
        inner = _State({**inner.axes, loop.axis: axis}, inner.arrays, inner.values, lanes, inner.depth)
        if len(positions):
            _run(loop.body, inner)
        return
    for position in positions:
        inner = state.scope()
        inner.axes[loop.axis] = np.asarray(position)
        _run(loop.body, inner)


def _simple(statement: Statement, state: _State) -> None:
    match statement:
        case Let(name, value):
            state.values[name] = _value(value, state)
        case Alloc(buffer, fill):
            shape = tuple(int(_dim(d, state)) for d in buffer.shape)
            garbage = np.nan if buffer.dtype.is_float else 0
            initial = garbage if fill is None else fill
            state.arrays[buffer.name] = np.full((*state.lanes, *shape), initial, buffer.dtype.numpy)
            state.depth[buffer.name] = len(state.lanes)
        case Store(buffer, index, value, mask):
            _store(buffer, index, value, mask, None, state)
        case Accumulate(buffer, index, combiner, value, mask):
            _store(buffer, index, value, mask, combiner, state)
        case Call("matmul", out, (a, b)):
            _rectangle(out, state)[...] += (_rectangle(a, state) @ _rectangle(b, state)).astype(
                out.buffer.dtype.numpy
            )
        case _:
            raise ValueError("not a statement that can be interpreted")


def _dim(dim: Dim, state: _State) -> Array:
    """The value of ``dim`` in all lanes."""
    if isinstance(dim, int):
        return np.asarray(dim)
    total = np.asarray(0)
    for monomial, coefficient in dim.terms:
        term = np.asarray(coefficient)
        for atom, power in monomial:
            term = term * _atom(atom, state) ** power
        total = total + term
    return total


_DIM_FUNCTIONS = {"floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum}


def _atom(atom: Symbol | Function, state: _State) -> Array:
    if isinstance(atom, Symbol):
        return state.axes[atom.name]
    first, *rest = (_dim(operand, state) for operand in atom.operands)
    for operand in rest:
        first = _DIM_FUNCTIONS[atom.name](first, operand)
    return first


def _value(value: Scalar, state: _State) -> Array:
    with np.errstate(all="ignore"):
        return _evaluate(value, state)


def _evaluate(value: Scalar, state: _State) -> Array:
    match value:
        case Const(number, dtype):
            return np.asarray(number).astype(dtype.numpy)
        case Ref(name):
            return state.values[name]
        case Position(index):
            return _dim(index, state).astype(np.int64)
        case Cast(operand, dtype):
            return _evaluate(operand, state).astype(dtype.numpy)
        case Bits(operand, dtype):
            return np.asarray(_evaluate(operand, state)).view(dtype.numpy)
        case Apply(function, operands):
            result = FUNCTIONS[function].numpy(*(_evaluate(o, state) for o in operands))
            return np.asarray(result).astype(value.dtype.numpy, copy=False)
        case Load(buffer, index, mask, other):
            return _load(buffer, index, mask, other, state)
        case _:
            raise TypeError(f"{value!r} is not a scalar")


def _positions(
    buffer: Buffer, index: tuple[Index, ...], keep: Array | None, state: _State
) -> tuple[Array, ...]:
    """Index arrays for the array of ``buffer``, one per dimension, for the lanes where ``keep`` is true."""
    own = [_evaluate(i, state) if isinstance(i, Scalar) else _dim(i, state) for i in index]
    array, depth = state.arrays[buffer.name], state.depth.get(buffer.name, 0)
    if len(own) != array.ndim - depth:
        raise IndexError(f"{len(own)} indices into {array.ndim - depth} dimensions")
    outer = [np.arange(n).reshape(-1, *[1] * (depth - 1 - i)) for i, n in enumerate(array.shape[:depth])]
    shape = () if keep is None else keep.shape
    positions = list(np.broadcast_arrays(*outer, *own, np.empty(shape))[:-1])
    if keep is not None:
        keep = np.broadcast_to(keep, np.broadcast_shapes(keep.shape, *(p.shape for p in positions)))
        positions = [p[keep] for p in positions]
    for position, size in zip(positions, array.shape, strict=True):
        if position.size and (position.min() < 0 or position.max() >= size):
            raise IndexError(f"{buffer.name}: index {position.min()}..{position.max()} outside [0, {size})")
    return tuple(positions)


def _load(
    buffer: Buffer, index: tuple[Index, ...], mask: Scalar | None, other: float, state: _State
) -> Array:
    array = state.arrays[buffer.name]
    if mask is None:
        return np.asarray(array[_positions(buffer, index, None, state)])
    lanes = np.broadcast_to(_evaluate(mask, state), state.lanes)
    result = np.full(lanes.shape, other, array.dtype)
    result[lanes] = array[_positions(buffer, index, lanes, state)]
    return result


def _store(
    buffer: Buffer,
    index: tuple[Index, ...],
    value: Scalar,
    mask: Scalar | None,
    combiner: str | None,
    state: _State,
) -> None:
    array = state.arrays[buffer.name]
    lanes = np.broadcast_to(True if mask is None else _value(mask, state), state.lanes)
    positions = _positions(buffer, index, lanes, state)
    values = np.broadcast_to(_value(value, state).astype(array.dtype, copy=False), state.lanes)[lanes]
    if combiner is None and positions:
        array[positions] = values
    elif combiner is None:
        array[...] = values[-1] if values.size else array
    elif combiner in COMBINERS:
        with np.errstate(all="ignore"):
            _combine(array, positions, values, combiner)
    else:
        raise ValueError(f"no combiner {combiner!r}")


def _combine(array: Array, positions: tuple[Array, ...], values: Array, combiner: str) -> None:
    ufunc = FUNCTIONS[combiner].numpy
    assert isinstance(ufunc, np.ufunc)
    # all lanes have the same target: reduce pairwise
    if values.size and all(p.size and p.min() == p.max() for p in positions):
        target = tuple(int(p.flat[0]) for p in positions)
        array[target] = ufunc(array[target], ufunc.reduce(values, axis=None, dtype=array.dtype))
        return
    ufunc.at(array, positions, values)


def _rectangle(tile: Tile, state: _State) -> Array:
    """A two-dimensional view of the elements of ``tile``."""
    array = state.arrays[tile.buffer.name]
    offsets = [int(_dim(o, state)) for o in tile.offsets]
    sizes = [int(_dim(s, state)) for s in tile.sizes]
    for offset, size, extent in zip(offsets, sizes, array.shape, strict=True):
        if offset < 0 or size < 0 or offset + size > extent:
            raise IndexError(f"{tile.buffer.name}: {offset}:{size} outside [0, {extent})")
    view = array[tuple(slice(o, o + s) for o, s in zip(offsets, sizes, strict=True))]
    literal = [i for i, s in enumerate(tile.sizes) if s == 1 and isinstance(s, int)]
    while view.ndim > 2 and literal:
        view = view.squeeze(literal.pop(0) - (len(sizes) - view.ndim))
    if view.ndim != 2:
        raise ValueError(f"{tile.buffer.name}: a tile of {view.ndim} dimensions")
    return view.T if tile.transposed else view

"""Emits C11 for kernels of the loop IR, with the kernel ABI.

``int32_t k(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch)``: ``buf`` has
the parameters and ``arg`` the sizes, both in order. A call runs the units [begin, end) of :func:`grid_of`,
with :func:`scratch_of` bytes of private memory. How a unit is computed depends only on sizes, so every
division into chunks gives the same bits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.ir.loops.hook import HOOK_SIZES
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Call,
    Index,
    Kernel,
    Kind,
    Level,
    Loop,
    Scalar,
    Statement,
    walk,
    written,
)
from graphwright.ir.symbols import Dim, ceildiv, minimum, product, symbol
from graphwright.ir.types import F32
from graphwright.records import dataclass, replace
from graphwright.support.escaping import c_comment
from graphwright.targets.cpu.c.body import Writer
from graphwright.targets.cpu.c.dims import depends
from graphwright.targets.cpu.c.dtypes import C_TYPES, check_dtype
from graphwright.targets.cpu.c.extent import extent_text, hook_extent_text
from graphwright.targets.cpu.c.main import main_text
from graphwright.targets.cpu.c.prefetch import prefetches
from graphwright.targets.cpu.c.prelude import Prelude
from graphwright.targets.cpu.c.ranges import HELPERS
from graphwright.targets.cpu.c.scope import Value, Variable, c_name
from graphwright.targets.cpu.isa import Isa

BLOCK = 4096
"""The number of elements of a vector axis in one unit of the grid."""


def phases(kernel: Kernel) -> tuple[Kernel, ...]:
    """Splits a kernel into one kernel per top-level loop, to be run one after the other. A kernel of one
    phase keeps its name.
    """
    if len(kernel.body) < 2 or not all(isinstance(s, Loop) for s in kernel.body):
        return (kernel,)
    return tuple(replace(kernel, name=f"{kernel.name}_{i}", body=(s,)) for i, s in enumerate(kernel.body))


def grid_of(kernel: Kernel) -> Dim:
    """The number of independent units of a kernel of one phase."""
    return product([ceildiv(axis.extent, axis.step) for axis in _grid(kernel).axes])


def scratch_of(kernel: Kernel) -> Dim:
    """The bytes of private memory per thread: its cache buffers, each aligned to cache lines."""
    return sum((_bytes(buffer) for buffer in _cache_buffers(kernel)), start=0)


def emit(kernel: Kernel, isa: Isa) -> str:
    """The C function(s) of ``kernel``, one per phase, without the prelude that :func:`emit_file` puts before
    them.
    """
    prelude = Prelude(isa)
    return "\n".join(_function(phase, prelude) for phase in phases(kernel))


def emit_file(kernels: Sequence[tuple[Kernel, str]], isa: Isa) -> str:
    """One translation unit with pairs (kernel, comment), where kernels may be epilogues: the prelude, the
    helpers that are used, the kernels, and a main function that runs them alone.

    Comments may be untrusted text. Compile with ``-DGRAPHWRIGHT_MAIN`` for a program that checks and times
    each kernel.
    """
    prelude = Prelude(isa)
    functions = []
    for kernel, comment in kernels:
        head = "".join(f"/* {c_comment(line)} */\n" for line in comment.splitlines() if line.strip())
        functions += [head + _any_function(phase, prelude) for phase in phases(kernel)]
    parts = [phase for kernel, _ in kernels for phase in phases(kernel)]
    naive = [_naive(phase, prelude) for phase in parts]
    launches = [(phase, grid_of(phase), scratch_of(phase)) for phase in parts if not is_hook(phase)]
    main = main_text(launches, [phase for phase in parts if is_hook(phase)], naive, prelude)
    return "\n".join([prelude.text(), *functions, main])


def is_hook(kernel: Kernel) -> bool:
    """Whether ``kernel`` is an epilogue in the form of :func:`_hook`."""
    return bool(kernel.parameters) and kernel.parameters[0].level is Level.CACHE


@dataclass(frozen=True)
class _Axis:
    """An axis of the grid: ``name`` takes the values 0, step, 2 * step, ... below ``extent``."""

    name: str
    extent: Dim
    step: int


@dataclass(frozen=True)
class _Grid:
    """The grid and the body of one unit; ``blocked`` is a vector loop of which each unit runs one block, as
    the last axis.
    """

    axes: tuple[_Axis, ...]
    body: tuple[Statement, ...]
    blocked: Loop | None = None


def _grid(kernel: Kernel) -> _Grid:
    axes: list[_Axis] = []
    body = kernel.body
    while (
        len(body) == 1 and isinstance(body[0], Loop) and body[0].kind is Kind.PARALLEL and _separable(body[0])
    ):
        loop = body[0]
        axes.append(_Axis(loop.axis, loop.extent, loop.step))
        body = loop.body
    if (
        not axes
        and len(body) == 1
        and isinstance(body[0], Loop)
        and body[0].kind is Kind.VECTOR
        and _separable(body[0])
    ):
        loop = body[0]
        return _Grid((_Axis(loop.axis, loop.extent, BLOCK),), body, loop)
    return _Grid(tuple(axes), body)


def _separable(loop: Loop) -> bool:
    """Whether no two iterations accumulate into the same element of memory, because each target depends on
    the axis.
    """
    private = {s.buffer.name for s in walk(loop.body) if isinstance(s, Alloc)}
    for statement in walk(loop.body):
        if isinstance(statement, Accumulate) and statement.buffer.name not in private:
            target: Sequence[Index] = statement.index
        elif isinstance(statement, Call) and statement.out.buffer.name not in private:
            target = statement.out.offsets
        else:
            continue
        if not any(not isinstance(i, Scalar) and depends(i, loop.axis) for i in target):
            return False
    return True


def _cache_buffers(kernel: Kernel) -> list[Buffer]:
    return [s.buffer for s in walk(kernel.body) if isinstance(s, Alloc) and s.buffer.level is Level.CACHE]


def _bytes(buffer: Buffer) -> Dim:
    return ceildiv(product(buffer.shape) * buffer.dtype.bytes, 64) * 64


def _any_function(kernel: Kernel, prelude: Prelude) -> str:
    prelude.define("extent", HELPERS)
    if is_hook(kernel):
        return _hook(kernel, prelude) + hook_extent_text(kernel)
    return _function(kernel, prelude) + extent_text(kernel, grid_of(kernel), scratch_of(kernel))


def _naive(kernel: Kernel, prelude: Prelude) -> str:
    """The function ``naive_NAME``: the same kernel in scalar loops, which the main function compares with."""
    make = _hook if is_hook(kernel) else _function
    return make(kernel, prelude, naive=True)


def _function(kernel: Kernel, prelude: Prelude, naive: bool = False) -> str:
    if len(phases(kernel)) > 1:
        raise ToolchainError(
            Diagnostic("emit-phases", "several phases: emit each of phases(kernel)", kernel.name)
        )
    writer = Writer(prelude, scalar=naive)
    _bind(writer, kernel, kernel.parameters, kernel.sizes)
    grid = _grid(kernel)
    if grid.axes:
        writer.ahead = prefetches(grid.body, grid.axes[-1].name)
        _grid_loop(writer, grid)
    else:
        with writer.block("if (begin < end)"):
            writer.body(grid.body)
    signature = "void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch"
    unused = ("buf", "arg", "begin", "end", "scratch")
    return _assemble(f"{_declared(kernel, naive)}({signature})", writer.lines, unused)


def _declared(kernel: Kernel, naive: bool) -> str:
    return f"static int32_t naive_{kernel.name}" if naive else f"GW_EXPORT int32_t {kernel.name}"


def _hook(kernel: Kernel, prelude: Prelude, naive: bool = False) -> str:
    """The C function of an epilogue, which a library kernel calls on each finished tile.

    The first parameter is the tile, f32 or i32 (:func:`~graphwright.ir.loops.hook.tile_of`). The sizes
    include those of :data:`HOOK_SIZES` that are used. Element (r, c) of the tile is element (batch, row0 + r,
    col0 + c) of the output.
    """
    tile, *parameters = kernel.parameters
    if _cache_buffers(kernel):
        raise ToolchainError(Diagnostic("emit-hook", "a hook has no scratch for cache buffers", kernel.name))
    writer = Writer(prelude, scalar=naive)
    sizes = tuple(s for s in kernel.sizes if s not in HOOK_SIZES)
    _bind(writer, kernel, tuple(parameters), sizes)
    writer.scope.variables[tile.name] = Variable("tile")
    writer.scope.names.update({name: name for name in HOOK_SIZES})
    writer.body(kernel.body)
    signature = (
        f"void *const *buf, const int64_t *arg, {C_TYPES[tile.dtype.name]} *tile, int64_t ld, int64_t batch,"
        " int64_t row0, int64_t rows, int64_t col0, int64_t cols"
    )
    unused = ("buf", "arg", "tile", *HOOK_SIZES)
    return _assemble(f"{_declared(kernel, naive)}({signature})", writer.lines, unused)


def _assemble(signature: str, lines: list[str], parameters: Sequence[str]) -> str:
    text = "\n".join(lines)
    unused = [p for p in parameters if not re.search(rf"\b{p}\b", text)]
    void = "".join(f"    (void){p};\n" for p in unused)
    prototype = "" if signature.startswith("static") else f"{signature};\n"
    return f"{prototype}{signature} {{\n{void}{text}\n    return 0;\n}}\n"


def _bind(writer: Writer, kernel: Kernel, parameters: tuple[Buffer, ...], sizes: tuple[str, ...]) -> None:
    """Declares the sizes, scalars, parameters and cache buffers that the body uses as local variables."""
    scope = writer.scope
    outputs = written(kernel)
    for position, size in enumerate(sizes):
        scope.names[size] = c_name(size)
        writer.line(f"const int64_t {c_name(size)} = arg[{position}];")
    for position, scalar in enumerate(kernel.scalars, len(sizes)):
        name = c_name(scalar)
        writer.line(f"float {name};")
        writer.line(f"__builtin_memcpy(&{name}, arg + {position}, sizeof {name});")
        scope.values[scalar] = Value(name, F32)
    for position, buffer in enumerate(parameters):
        check_dtype(buffer.dtype)
        constant = "" if buffer.name in outputs else "const "
        writer.line(f"{constant}{C_TYPES[buffer.dtype.name]} *{c_name(buffer.name)} = buf[{position}];")
        scope.variables[buffer.name] = Variable(c_name(buffer.name))
    offset: Dim = 0
    for buffer in _cache_buffers(kernel):
        check_dtype(buffer.dtype)
        ctype = C_TYPES[buffer.dtype.name]
        name = c_name(buffer.name)
        writer.line(f"{ctype} *{name} = ({ctype} *)((char *)scratch + {writer.factor(offset)});")
        scope.variables[buffer.name] = Variable(name)
        offset = offset + _bytes(buffer)
    for name in map(c_name, (*sizes, *kernel.scalars, *(b.name for b in parameters))):
        writer.line(f"(void){name};")


def _grid_loop(writer: Writer, grid: _Grid) -> None:
    """The loop over units: the axes are decoded once, and then incremented like an odometer."""
    writer.line("if (begin >= end)")
    writer.line("    return 0;")
    remaining = "begin"
    names = [f"{c_name(a.name)}{'_block_' if a.name == _blocked_axis(grid) else ''}" for a in grid.axes]
    units = [writer.factor(ceildiv(a.extent, a.step)) for a in grid.axes]
    for position in reversed(range(len(grid.axes))):
        scale = f" * {grid.axes[position].step}" if grid.axes[position].step != 1 else ""
        if position == 0:
            value = remaining if remaining == "begin" else f"({remaining})"
        else:
            value = f"({remaining} % {units[position]})"
            remaining = f"{remaining} / {units[position]}"
        writer.line(f"int64_t {names[position]} = {value}{scale};")
    with writer.block("for (int64_t unit = begin; unit < end; ++unit)"):
        for axis, name in zip(grid.axes, names, strict=True):
            writer.scope.names[axis.name] = name
        _unit(writer, grid, names[-1])
        for position in reversed(range(1, len(grid.axes))):
            axis = grid.axes[position]
            writer.line(f"if (({names[position]} += {axis.step}) < {writer.factor(axis.extent)})")
            writer.line("    continue;")
            writer.line(f"{names[position]} = 0;")
        writer.line(f"{names[0]} += {grid.axes[0].step};")


def _blocked_axis(grid: _Grid) -> str | None:
    return grid.blocked.axis if grid.blocked else None


def _unit(writer: Writer, grid: _Grid, last: str) -> None:
    if grid.blocked is None:
        with writer.block(""):
            writer.body(grid.body)
        return
    writer.scope.names["block_"] = last
    end = writer.fresh("end")
    stop = minimum(symbol("block_") + BLOCK, grid.blocked.extent)
    writer.line(f"const int64_t {end} = {writer.dim(stop)};")
    if writer.scalar:
        writer.scalar_loop(grid.blocked, last, end)
    else:
        writer.vector_loop(grid.blocked, last, end)

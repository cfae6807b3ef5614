"""Emits the extent function of a generated kernel: it computes which memory the kernel accesses, and the
runtime calls it for bounds checks when it makes a plan.

``int32_t NAME_extent(const int64_t *arg, int64_t args, int64_t operands, double *out)`` gets the arguments of
the kernel and the grid in ``out[0]``. It sets ``out[0]`` to the largest valid grid, ``out[1]`` to the bytes
of scratch, and ``out[FIRST + k]`` to the end of the accesses to operand ``k`` in bytes (negated if the
operand may be absent). It returns nonzero if the arguments are invalid. Numbers are doubles: below 2^53 they
are exact, and larger ones do not wrap.

For a kernel that can take an epilogue, ``out[HOOK]`` says on entry whether there is one. The kernel's
function sets ``out[HOOK]`` to the position of the epilogue among its operands, ``out[ARGS]`` to the number of
its own arguments, after which those of the epilogue follow, and ``out[TILE]`` and the next two to the batch,
rows and columns that the epilogue is called for. The function of the epilogue gets these as its input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphwright.ir.loops.hook import HOOK_SIZES
from graphwright.ir.loops.nodes import (
    Accumulate,
    Buffer,
    Call,
    Index,
    Kernel,
    Kind,
    Level,
    Load,
    Loop,
    Scalar,
    Statement,
    Store,
    Tile,
)
from graphwright.ir.symbols import Atom, Dim, Expr, Symbol, atoms, product, symbol
from graphwright.records import dataclass
from graphwright.targets.cpu.c.analysis import children, parts

SUFFIX = "_extent"
HELPERS = """
static inline __attribute__((unused)) double gw_most(double a, double b) { return a > b || a != a ? a : b; }
static inline __attribute__((unused)) double gw_least(double a, double b) { return a < b || a != a ? a : b; }
static inline __attribute__((unused)) double gw_floor(double a, double b) { return __builtin_floor(a / b); }
"""
"""Helpers of extent functions, which propagate NaN."""
TILE, HOOK, ARGS, FIRST = 2, 5, 6, 7
"""Indices in ``out``."""
SIGNATURE = "const int64_t *arg, int64_t args, int64_t operands, double *out"

_Range = tuple[str, str]
"""C expressions of the least and the greatest value."""


@dataclass(frozen=True)
class _Access:
    """One read or write, and the loops around it."""

    buffer: Buffer
    index: tuple[Index, ...]
    sizes: tuple[Dim, ...]
    """The number of elements accessed along each axis."""
    is_masked: bool
    loops: tuple[Loop, ...]


def extent_text(kernel: Kernel, grid: Dim, scratch: Dim) -> str:
    """The extent function of ``kernel``, which has one phase; empty if a stride may be negative."""
    names = _names(kernel.sizes)
    lines = [
        *_head(kernel.sizes, kernel.parameters),
        f"out[0] = {number_text(grid, names)};",
        f"out[1] = {number_text(scratch, names)};",
    ]
    return _function(kernel.name, [*lines, *_reaches(kernel.body, (), kernel.parameters, names)])


def hook_extent_text(kernel: Kernel) -> str:
    """The extent function of an epilogue that is called for tiles which cover all of [batch, rows,
    columns].
    """
    sizes = tuple(size for size in kernel.sizes if size not in HOOK_SIZES)
    own = {"row0": "0.0", "col0": "0.0", "batches": "batches", "rows": "rows", "cols": "cols"}
    tile = [f"const double {name} = out[{TILE + k}];" for k, name in enumerate(("batches", "rows", "cols"))]
    lines = [*_head(sizes, kernel.parameters[1:]), *tile, "(void)batches, (void)rows, (void)cols;"]
    images = Loop("batch", Kind.SERIAL, symbol("batches"), kernel.body)
    reaches = _reaches((images,), (), kernel.parameters[1:], _names(sizes) | own)
    return _function(kernel.name, [*lines, *reaches])


def _names(sizes: Sequence[str]) -> dict[str, str]:
    """The C variables of sizes."""
    return {size: f"n{position}" for position, size in enumerate(sizes)}


def _head(sizes: Sequence[str], parameters: Sequence[Buffer]) -> list[str]:
    names = _names(sizes).values()
    return [
        f"if (args < {len(sizes)} || operands < {len(parameters)})",
        "    return 1;",
        *(f"const double {name} = (double)arg[{k}];" for k, name in enumerate(names)),
        *(f"(void){name};" for name in names),
        *([] if sizes else ["(void)arg;"]),
    ]


def _function(name: str, lines: Sequence[str]) -> str:
    head = f"GW_EXPORT int32_t {name}{SUFFIX}({SIGNATURE})"
    body = "\n".join(f"    {line}" for line in [*lines, "return 0;"])
    return f"{head};\n{head} {{\n{body}\n}}\n"


def _reaches(
    body: Sequence[Statement],
    loops: tuple[Loop, ...],
    parameters: Sequence[Buffer],
    names: Mapping[str, str],
) -> Iterator[str]:
    """C statements for all accesses to ``parameters``."""
    positions = {buffer.name: position for position, buffer in enumerate(parameters)}
    seen: set[str] = set()
    for access in _accesses(body, loops):
        if access.buffer.level is not Level.GLOBAL or access.buffer.name not in positions:
            continue
        made = "\n    ".join(_reach(access, positions[access.buffer.name], names))
        if made not in seen:
            yield made
        seen.add(made)


def _accesses(body: Sequence[Statement], loops: tuple[Loop, ...]) -> Iterator[_Access]:
    for statement in body:
        for value in parts(statement):
            yield from _loads(value, loops)
        if isinstance(statement, Store | Accumulate):
            masked = statement.mask is not None
            yield _element(statement.buffer, statement.index, masked, loops)
        elif isinstance(statement, Call):
            yield from (_tile(tile, loops) for tile in (statement.out, *statement.operands))
        elif isinstance(statement, Loop):
            yield from _accesses(statement.body, (*loops, statement))


def _loads(value: Scalar, loops: tuple[Loop, ...]) -> Iterator[_Access]:
    if isinstance(value, Load):
        yield _element(value.buffer, value.index, value.mask is not None, loops)
    for part in children(value):
        yield from _loads(part, loops)


def _element(buffer: Buffer, index: tuple[Index, ...], masked: bool, loops: tuple[Loop, ...]) -> _Access:
    return _Access(buffer, index, (1,) * len(index), masked, loops)


def _tile(tile: Tile, loops: tuple[Loop, ...]) -> _Access:
    return _Access(tile.buffer, tile.offsets, tile.sizes, False, loops)


def _reach(access: _Access, position: int, names: Mapping[str, str]) -> Iterator[str]:
    """C statements that extend the end of an operand to include one access.

    An index in which each axis occurs once is bounded by the loops. Any other index, and one that depends on
    a mask or on data, is assumed to be within the shape of the buffer, which masks and checks ensure.
    """
    ranges, conditions = _axes(access.loops, names)
    low, high = ["0"], ["0"]
    for place, size, length, stride in zip(
        access.index, access.sizes, access.buffer.shape, _strides(access.buffer), strict=True
    ):
        found = None
        if not access.is_masked and not isinstance(place, Scalar):
            found = _affine(place, ranges, names)
        last = number_text(size - 1, names) if not _axes_in(size, ranges) else None
        if size != 1 and last is not None:
            conditions.append(f"{number_text(size, names)} > 0")
        if found is None or last is None:
            whole = number_text(length, names)
            conditions.append(f"{whole} > 0")
            found, last = ("0", f"({whole} - 1)"), "0"
        step = number_text(stride, names)
        low.append(f"gw_least({found[0]} * {step}, {found[1]} * {step})")
        high.append(f"gw_most({found[0]} * {step}, ({found[1]} + {last}) * {step})")
    condition = " && ".join(dict.fromkeys(conditions)) or "1"
    yield f"if ({condition}) {{"
    yield f"    if ({' + '.join(low)} < 0)"
    yield "        return 1;"
    target = f"out[{FIRST + position}]"
    yield f"    {target} = gw_most({target}, ({' + '.join(high)} + 1) * {access.buffer.dtype.bytes});"
    yield "}"


def _axes(loops: Sequence[Loop], names: Mapping[str, str]) -> tuple[dict[str, _Range | None], list[str]]:
    """The range of each axis, None if it does not follow from sizes; and the conditions under which all loops
    run.
    """
    ranges: dict[str, _Range | None] = {}
    conditions: list[str] = []
    for loop in loops:
        if _axes_in(loop.extent, ranges):
            ranges[loop.axis] = None
            continue
        extent = number_text(loop.extent, names)
        conditions.append(f"{extent} > 0")
        ranges[loop.axis] = ("0", f"({extent} - 1)")
    return ranges, conditions


def _axes_in(dim: Dim, ranges: Mapping[str, object]) -> bool:
    return any(atom.name in ranges for atom in atoms(dim))


def _affine(
    place: Dim, ranges: Mapping[str, _Range | None], names: Mapping[str, str], used: set[str] | None = None
) -> _Range | None:
    """The range of the index ``place``; None unless each axis occurs in one term, to the first power."""
    if not isinstance(place, Expr):
        return str(place), str(place)
    used = set() if used is None else used
    low, high = ["0"], ["0"]
    for monomial, coefficient in place.terms:
        factors: list[Atom] = [atom for atom, power in monomial for _ in range(power)]
        moving = [atom for atom in factors if _moves(atom, ranges)]
        others = [atom for atom in factors if not _moves(atom, ranges)]
        text = " * ".join([_float(coefficient), *(_atom(atom, names) for atom in others)])
        if len(moving) > 1:
            return None
        if not moving:
            low.append(text)
            high.append(text)
            continue
        known = _moving(moving[0], ranges, names, used)
        if known is None:
            return None
        low.append(f"gw_least({text} * {known[0]}, {text} * {known[1]})")
        high.append(f"gw_most({text} * {known[0]}, {text} * {known[1]})")
    return f"({' + '.join(low)})", f"({' + '.join(high)})"


def _moving(
    atom: Atom, ranges: Mapping[str, _Range | None], names: Mapping[str, str], used: set[str]
) -> _Range | None:
    """The range of an axis, or of a function of axes."""
    if isinstance(atom, Symbol):
        known = None if atom.name in used else ranges[atom.name]
        used.add(atom.name)
        return known
    inner, *rest = atom.operands
    if any(_axes_in(operand, ranges) for operand in rest):
        return None
    range_ = _affine(inner, ranges, names, used)
    if range_ is None or atom.name != "mod":
        ends = [
            combined_text(atom.name, [end, *(number_text(d, names) for d in rest)]) for end in range_ or ()
        ]
        return (f"gw_least({', '.join(ends)})", f"gw_most({', '.join(ends)})") if ends else None
    last = f"({number_text(rest[0], names)} - 1)"
    return "0.0", f"({range_[0]} >= 0 ? gw_least({range_[1]}, {last}) : {last})"


def _moves(atom: Atom, ranges: Mapping[str, object]) -> bool:
    if isinstance(atom, Symbol):
        return atom.name in ranges
    return any(_axes_in(operand, ranges) for operand in atom.operands)


def _strides(buffer: Buffer) -> Sequence[Dim]:
    if buffer.strides is not None:
        return buffer.strides
    return [product(buffer.shape[axis + 1 :]) for axis in range(len(buffer.shape))]


def _float(number: int) -> str:
    return f"{number}.0" if number >= 0 else f"({number}.0)"


def number_text(dim: Dim, names: Mapping[str, str]) -> str:
    """``dim`` as a C expression of type double."""
    if isinstance(dim, int):
        return _float(dim)
    terms = [
        " * ".join(
            [_float(coefficient), *(_atom(atom, names) for atom, power in monomial for _ in range(power))]
        )
        for monomial, coefficient in dim.terms
    ]
    return f"({' + '.join(terms)})"


def _atom(atom: Atom, names: Mapping[str, str]) -> str:
    if isinstance(atom, Symbol):
        return names[atom.name]
    return combined_text(atom.name, [number_text(operand, names) for operand in atom.operands])


def combined_text(function: str, operands: Sequence[str]) -> str:
    """A function of C expressions, as a C expression: floordiv, mod, min or max."""
    first, *rest = operands
    for operand in rest:
        match function:
            case "min":
                first = f"gw_least({first}, {operand})"
            case "max":
                first = f"gw_most({first}, {operand})"
            case "floordiv":
                first = f"gw_floor({first}, {operand})"
            case _:
                first = f"({first} - {operand} * gw_floor({first}, {operand}))"
    return first

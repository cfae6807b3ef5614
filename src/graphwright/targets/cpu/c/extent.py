"""Emits the extent function of a generated kernel: it computes which memory the kernel accesses, and the
runtime calls it for bounds checks when it makes a plan.

``int32_t NAME_extent(const int64_t *arg, int64_t args, int64_t operands, double *out)`` gets the arguments of
the kernel and the grid in ``out[0]``. It sets ``out[0]`` to the largest valid grid, ``out[1]`` to the bytes
of scratch, and ``out[FIRST + k]`` to the end of the accesses to operand ``k`` in bytes (negated if the
operand may be absent). It returns nonzero if the arguments are invalid. Numbers are doubles: below 2^53 they
are exact, and larger ones do not wrap.

For a kernel that can take an epilogue, ``out[HOOK]`` says on entry whether there is one. The kernel's
function then sets ``out[HOOK]`` to the position of the epilogue among its operands, and ``out[ARGS]`` to the
number of its own arguments; the arguments of the epilogue follow them. It sets ``out[TILE]`` and the next two
to the numbers of batches, rows and columns for which it calls the epilogue. The extent function of the
epilogue gets these three as input.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

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
from graphwright.ir.symbols import Atom, Dim, Expr, Symbol, names_in, product, symbol
from graphwright.records import dataclass
from graphwright.targets.cpu.c.analysis import children, parts
from graphwright.targets.cpu.c.ranges import (
    ONE,
    ZERO,
    Double,
    Names,
    Range,
    atom_value,
    combined,
    least,
    literal,
    most,
    number,
    plus,
    scaled,
    times,
)

SUFFIX = "_extent"
TILE, HOOK, ARGS, FIRST = 2, 5, 6, 7
"""Indices in ``out``."""
SIGNATURE = "const int64_t *arg, int64_t args, int64_t operands, double *out"


@dataclass(frozen=True)
class _Access:
    """One read or write, and the loops around it."""

    buffer: Buffer
    index: tuple[Index, ...]
    sizes: tuple[Dim, ...]
    """The number of elements accessed along each axis."""
    is_masked: bool
    loops: tuple[Loop, ...]

    def extents(self) -> dict[str, Dim | None]:
        """The number of iterations along each axis; None if it does not follow from sizes."""
        extents: dict[str, Dim | None] = {}
        for loop in self.loops:
            extents[loop.axis] = None if _axes_in(loop.extent, extents) else loop.extent
        return extents


def extent_text(kernel: Kernel, grid: Dim, scratch: Dim) -> str:
    """The extent function of ``kernel``, which has one phase; empty if a stride may be negative."""
    names = _names(kernel.sizes)
    lines = [
        *_head(kernel.sizes, kernel.scalars, kernel.parameters),
        f"out[0] = {number(grid, names).text};",
        f"out[1] = {number(scratch, names).text};",
    ]
    return _function(kernel.name, [*lines, *_reaches(kernel.body, kernel.parameters, names)])


def hook_extent_text(kernel: Kernel) -> str:
    """The extent function of an epilogue that is called for tiles which cover all of [batch, rows,
    columns].
    """
    sizes = tuple(size for size in kernel.sizes if size not in HOOK_SIZES)
    tile = [f"const double {name} = out[{TILE + k}];" for k, name in enumerate(("batches", "rows", "cols"))]
    lines = [
        *_head(sizes, kernel.scalars, kernel.parameters[1:]),
        *tile,
        "(void)batches, (void)rows, (void)cols;",
    ]
    own = {"row0": ZERO, "col0": ZERO} | {name: Double(name) for name in ("batches", "rows", "cols")}
    images = Loop("batch", Kind.SERIAL, symbol("batches"), kernel.body)
    return _function(kernel.name, [*lines, *_reaches((images,), kernel.parameters[1:], _names(sizes) | own)])


def _names(sizes: Sequence[str]) -> dict[str, Double]:
    """The C variables of sizes."""
    return {size: Double(f"n{position}") for position, size in enumerate(sizes)}


def _head(sizes: Sequence[str], scalars: Sequence[str], parameters: Sequence[Buffer]) -> list[str]:
    variables = [each.text for each in _names(sizes).values()]
    return [
        f"if (args < {len(sizes) + len(scalars)} || operands < {len(parameters)})",
        "    return 1;",
        *(f"const double {name} = (double)arg[{k}];" for k, name in enumerate(variables)),
        *(f"(void){name};" for name in variables),
        *([] if sizes else ["(void)arg;"]),
    ]


def _function(name: str, lines: Sequence[str]) -> str:
    head = f"GW_EXPORT int32_t {name}{SUFFIX}({SIGNATURE})"
    body = "\n".join(f"    {line}" for line in [*lines, "return 0;"])
    return f"{head};\n{head} {{\n{body}\n}}\n"


def _reaches(body: Sequence[Statement], parameters: Sequence[Buffer], names: Names) -> Iterator[str]:
    """C statements for all accesses to ``parameters``, one block for each condition."""
    positions = {buffer.name: position for position, buffer in enumerate(parameters)}
    blocks: dict[str, dict[str, None]] = {}
    for access in _accesses(body, ()):
        if access.buffer.level is not Level.GLOBAL or access.buffer.name not in positions:
            continue
        positive = _positive(access, names)
        condition = " && ".join(f"{number(dim, names).text} > 0" for dim in positive) or "1"
        target = f"out[{FIRST + positions[access.buffer.name]}]"
        statements = _reach(access, target, _with_signs(positive, names))
        blocks.setdefault(condition, {}).update(dict.fromkeys(statements))
    for condition, block in blocks.items():
        yield f"if ({condition}) {{"
        yield from (f"    {statement}" for statement in block)
        yield "}"


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
    return _Access(tile.buffer, tile.offsets, tile.sizes, is_masked=False, loops=loops)


def _positive(access: _Access, names: Names) -> tuple[Dim, ...]:
    """Sizes of loops, of a tile, and of the axes of the buffer whose index no loop bounds. There is no access
    unless all of them are positive.
    """
    extents, indices = access.extents(), _IndexRanges(access, names).indices()
    sizes = [extent for extent in extents.values() if extent is not None]
    for index, size, length in zip(indices, access.sizes, access.buffer.shape, strict=True):
        if size != 1 and not _axes_in(size, extents):
            sizes.append(size)
        if index is None:
            sizes.append(length)
    return tuple(size for size in dict.fromkeys(sizes) if isinstance(size, Expr) or size <= 0)


def _with_signs(positive: Sequence[Dim], names: Names) -> dict[str, Double]:
    """``names``, where the variables of ``positive`` symbols are known to be so."""
    signs = {name: text.at_least_0 or symbol(name) in positive for name, text in names.items()}
    return {name: text._replace(at_least_0=signs[name]) for name, text in names.items()}


def _reach(access: _Access, target: str, names: Names) -> Iterator[str]:
    """C statements that extend the end of an operand to include one access."""
    ranges, low, high = _IndexRanges(access, names), [ZERO], [ZERO]
    for index, length, stride in zip(
        ranges.indices(), access.buffer.shape, _strides(access.buffer), strict=True
    ):
        along = scaled(index or Range(ZERO, ranges.last(length)), number(stride, names))
        low.append(along.low)
        high.append(along.high)
    first = plus(*low)
    if not first.at_least_0:
        yield f"if ({first.text} < 0)\n            return 1;"
    end = times(plus(*high, ONE), literal(access.buffer.dtype.bytes))
    yield f"{target} = gw_most({target}, {end.text});"


class _IndexRanges:
    """The ranges of the indices of an access; ``names`` are the C variables of sizes."""

    def __init__(self, access: _Access, names: Names) -> None:
        self._access, self._names = access, names
        self._axes = {
            axis: None if extent is None else Range(ZERO, self.last(extent))
            for axis, extent in access.extents().items()
        }

    def indices(self) -> list[Range | None]:
        """The range of the index along each axis of the buffer.

        An index in which each axis occurs once is bounded by the loops. Any other index, and one that depends
        on a mask or on data, is None: assumed to be within the shape of the buffer, which masks and checks
        ensure.
        """
        found: list[Range | None] = []
        for index, size in zip(self._access.index, self._access.sizes, strict=True):
            if self._access.is_masked or isinstance(index, Scalar) or _axes_in(size, self._axes):
                found.append(None)
                continue
            first = self._affine(index, set())
            found.append(first and Range(first.low, plus(first.high, self.last(size))))
        return found

    def last(self, size: Dim) -> Double:
        """The last index of an axis that is not empty."""
        return number(size - 1, self._names)._replace(at_least_0=True)

    def _affine(self, index: Dim, used: set[str]) -> Range | None:
        """The range of ``index``; None unless each axis occurs in one term, to the first power. Axes that
        occurred are added to ``used``.
        """
        if not isinstance(index, Expr):
            return Range(literal(index), literal(index))
        low, high = [ZERO], [ZERO]
        for monomial, coefficient in index.terms:
            factors: list[Atom] = [atom for atom, power in monomial for _ in range(power)]
            moving = [atom for atom in factors if self._moves(atom)]
            if len(moving) > 1:
                return None
            known = self._moving(moving[0], used) if moving else Range(ONE, ONE)
            if known is None:
                return None
            others = (atom_value(atom, self._names) for atom in factors if atom not in moving)
            term = scaled(known, times(literal(coefficient), *others))
            low.append(term.low)
            high.append(term.high)
        return Range(plus(*low), plus(*high))

    def _moving(self, atom: Atom, used: set[str]) -> Range | None:
        """The range of an axis, or of a function of axes."""
        if isinstance(atom, Symbol):
            known = None if atom.name in used else self._axes[atom.name]
            used.add(atom.name)
            return known
        inner, *rest = atom.operands
        if any(_axes_in(operand, self._axes) for operand in rest):
            return None
        found = self._affine(inner, used)
        if found is None:
            return None
        if atom.name == "mod":
            last = self.last(rest[0])
            high = least(found.high, last).text
            text = high if found.low.at_least_0 else f"({found.low.text} >= 0 ? {high} : {last.text})"
            return Range(ZERO, Double(text, at_least_0=True))
        operands = [number(operand, self._names) for operand in rest]
        ends = [combined(atom.name, [end, *operands]) for end in found]
        return Range(least(*ends), most(*ends))

    def _moves(self, atom: Atom) -> bool:
        if isinstance(atom, Symbol):
            return atom.name in self._axes
        return any(_axes_in(operand, self._axes) for operand in atom.operands)


def _axes_in(dim: Dim, axes: Container[str]) -> bool:
    return any(name in axes for name in names_in(dim))


def _strides(buffer: Buffer) -> Sequence[Dim]:
    if buffer.strides is not None:
        return buffer.strides
    return [product(buffer.shape[axis + 1 :]) for axis in range(len(buffer.shape))]

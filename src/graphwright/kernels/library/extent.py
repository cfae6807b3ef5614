"""Declares which memory a library kernel accesses, as a function of its arguments.

Each module with kernels has a function ``extents(isa)``. Each declaration becomes the C function
``NAME_extent``, which the runtime calls for bounds checks when it makes a plan (see
:mod:`graphwright.targets.cpu.c.extent`). A kernel without a declaration is not built.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Final, NamedTuple

from graphwright.ir.symbols import Atom, Dim, Symbol, product, symbol
from graphwright.records import dataclass
from graphwright.targets.cpu.c.extent import ARGS, FIRST, HOOK, SIGNATURE, SUFFIX, TILE
from graphwright.targets.cpu.c.ranges import (
    HELPERS,
    ONE,
    ZERO,
    Double,
    Range,
    combined,
    plus,
    polynomial,
    scaled,
    times,
)

Axis = tuple[Dim, Dim]
"""The number of elements along an axis, and its stride in elements."""

COUNT: Final = (0, 1 << 47)
"""The default range of an argument: below any address."""
SIGNED: Final = (-(1 << 47), 1 << 47)
STEP: Final = (1, 1 << 31)
"""The range of divisors, such as strides and dilations of windows."""
PAD: Final = (-(1 << 31), 1 << 31)
"""The range of pads, which crop if they are negative."""
SIZE: Final = (0, 1 << 31)
"""The range of sizes that are multiplied and that no operand bounds."""
FLAG: Final = (0, 1)
BITS: Final = (-(1 << 63), 1 << 63)
"""The range of the bits of a float: all values."""
_GRID: Final = "launched_grid"
GRID: Final = symbol(_GRID)
"""The grid that a kernel is launched with."""

Bounds = dict[str, tuple[int, int]]
_AXES: Final = frozenset(
    ("n", "c", "cb", "d", "h", "w", "m", "k", "batch", "batch0", "batch1", "channel", "depth", "row")
)
"""The names of axes, with which names of strides end."""


@dataclass(frozen=True)
class Reach:
    """The accessed part of an operand: elements of ``item`` bytes along ``axes``, after ``offset`` elements.
    It is empty if an axis is.
    """

    item: Dim
    axes: tuple[Axis, ...]
    offset: Dim = 0
    optional: bool = False
    """Whether the operand may be absent."""
    unhooked: bool = False
    """Whether it is accessed only without an epilogue."""
    in_place: bool = False
    """Whether it may be absent if there is an epilogue; if it is present, the tiles are stored there."""


class Tiles(NamedTuple):
    """The index space that an epilogue is called for, tile by tile."""

    batch: Dim
    rows: Dim
    columns: Dim


@dataclass(frozen=True)
class Extent:
    """The memory that a kernel may access. ``args`` are the names of its arguments in order; expressions may
    also contain :data:`GRID`.

    ``bounds`` are the ranges of arguments that differ from :data:`COUNT`. The expressions ``multiples`` must
    be 0, and ``at_least_0`` must not be negative. ``tiles`` is for a kernel that takes an epilogue, which
    follows its operands.
    """

    symbol: str
    args: tuple[str, ...]
    operands: tuple[Reach, ...]
    grid: Dim
    scratch: Dim = 0
    bounds: Bounds | None = None
    choices: Mapping[str, tuple[int, ...]] | None = None
    multiples: tuple[Dim, ...] = ()
    at_least_0: tuple[Dim, ...] = ()
    tiles: Tiles | None = None
    needs_hook: bool = False
    """Whether the epilogue is required."""

    def c_text(self) -> str:
        """The C function ``NAME_extent``. Raises ``ValueError`` if an argument has the name of the grid."""
        if _GRID in self.args:
            raise ValueError(f"{self.symbol}: {_GRID} is the grid of a launch; name the argument otherwise")
        writer = _Writer(self.args)
        operands = len(self.operands) + (self.tiles is not None)
        writer.lines += [
            f"if (args < {len(self.args)} || operands < {operands})",
            "    return 1;",
            "const double grid = out[0];",
            f"const int hooked = out[{HOOK}] > 0;",
            "(void)arg, (void)grid, (void)hooked;",
        ]
        for position, name in enumerate(self.args):
            writer.lines += [f"const double a_{name} = (double)arg[{position}];", f"(void)a_{name};"]
        self._write_conditions(writer)
        self._write_tiles(writer)
        writer.put("out[0]", self.grid)
        writer.put("out[1]", self.scratch)
        for position, reach in enumerate(self.operands):
            writer.write_reach(reach, f"out[{FIRST + position}]")
        body = "\n".join(f"    {line}" for line in [*writer.lines, "return 0;"])
        head = f"GW_EXPORT int32_t {self.symbol}{SUFFIX}({SIGNATURE})"
        return f"{head};\n{head} {{\n{body}\n}}\n"

    def _write_conditions(self, writer: _Writer) -> None:
        if self.needs_hook:
            writer.refuse("!hooked")
        choices = self.choices or {}
        for name in self.args:
            if name in choices:
                writer.refuse(" && ".join(f"a_{name} != {value}" for value in choices[name]))
                continue
            low, high = (self.bounds or {}).get(name, COUNT)
            if (low, high) != BITS:
                writer.refuse(f"!(a_{name} >= {low}.0 && a_{name} <= {high}.0)")
        for dim in self.multiples:
            writer.refuse(f"!({writer.text(dim)} == 0)")
        for dim in self.at_least_0:
            writer.refuse(f"!({writer.text(dim)} >= 0)")

    def _write_tiles(self, writer: _Writer) -> None:
        if self.tiles is None:
            return
        for position, size in enumerate(self.tiles):
            writer.put(f"out[{TILE + position}]", size)
        writer.lines += [f"out[{HOOK}] = {len(self.operands)};", f"out[{ARGS}] = {len(self.args)};"]


class ExtentInC(Extent):
    """The extent of a kernel whose C file defines the function itself."""

    def c_text(self) -> str:
        return ""


def c_text(extents: tuple[Extent, ...]) -> str:
    """The C functions of ``extents``, after the helpers that they need."""
    return "\n".join([HELPERS, *(extent.c_text() for extent in extents)])


def arguments(*names: str) -> SimpleNamespace:
    """The arguments ``names`` as symbols."""
    return SimpleNamespace(**{name: symbol(name) for name in names})


def dense(item: Dim, *sizes: Dim, optional: bool = False) -> Reach:
    """An array without gaps."""
    return Reach(item, ((product(sizes), 1),), optional=optional)


def strided(names: SimpleNamespace, size: str, step: str, rank: int) -> tuple[Axis, ...]:
    """The axes ``size0`` ... by steps of ``step0`` ..."""
    return tuple((getattr(names, f"{size}{k}"), getattr(names, f"{step}{k}")) for k in range(rank))


def within(bounds: tuple[int, int], *names: str) -> dict[str, tuple[int, int]]:
    """``bounds`` for each of ``names``."""
    return dict.fromkeys(names, bounds)


def stride_bounds(args: tuple[str, ...], *operands: str) -> Bounds:
    """The ranges of those of ``args`` that are strides of ``operands``, such as ``x_n`` or ``y_row``, which
    may be negative.
    """
    words = {name: name.rpartition("_") for name in args}
    strides = (name for name, (operand, _, axis) in words.items() if operand in operands and axis in _AXES)
    return within(SIGNED, *strides)


def window_bounds(args: tuple[str, ...]) -> Bounds:
    """The ranges of those of ``args`` that describe the taps of a window."""
    kinds = {"stride": STEP, "dilation": STEP, "pad": PAD, "kernel": SIZE}
    taps = within(SIZE, *(name for name in args if name in ("kd", "kh", "kw")))
    return taps | {name: kinds[name.split("_")[0]] for name in args if name.split("_")[0] in kinds}


class _Writer:
    """Writes C statements; common subexpressions are computed once."""

    def __init__(self, args: tuple[str, ...]) -> None:
        self.lines: list[str] = []
        self._values: dict[Atom, Double] = {Symbol(name): Double(f"a_{name}") for name in args}
        self._values[Symbol(_GRID)] = Double("grid")

    def text(self, dim: Dim) -> str:
        return self._number(dim).text

    def _number(self, dim: Dim) -> Double:
        return polynomial(dim, self._value_of)

    def _value_of(self, atom: Atom) -> Double:
        if atom not in self._values:
            assert not isinstance(atom, Symbol), f"{atom} is not an argument"
            value = combined(atom.name, [self._number(operand) for operand in atom.operands])
            name = f"t{len(self._values)}"
            self.lines.append(f"const double {name} = {value.text};")
            self._values[atom] = Double(name)
        return self._values[atom]

    def put(self, target: str, dim: Dim) -> None:
        text = self.text(dim)
        self.lines.append(f"{target} = {text};")

    def refuse(self, condition: str) -> None:
        self.lines += [f"if ({condition})", "    return 1;"]

    def write_reach(self, reach: Reach, target: str) -> None:
        """Writes the end of the accessed part; negative if the operand may be absent."""
        low, high, counts = [self._number(reach.offset)], [self._number(reach.offset)], []
        for count, stride in reach.axes:
            counts.append(f"{self.text(count)} > 0")
            last = self._number(count - 1)._replace(at_least_0=True)
            along = scaled(Range(ZERO, last), self._number(stride))
            low.append(along.low)
            high.append(along.high)
        first, end = plus(*low), times(plus(*high, ONE), self._number(reach.item))
        conditions = ["!hooked", *counts] if reach.unhooked else counts
        self.lines.append(f"if ({' && '.join(conditions) or '1'}) {{")
        if first != ZERO:
            self.lines += [f"    if (!({first.text} >= 0))", "        return 1;"]
        sign = "-" if reach.optional else "(hooked ? -1 : 1) * " if reach.in_place else ""
        self.lines += [f"    {target} = {sign}{end.text};", "}"]

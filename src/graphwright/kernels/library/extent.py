"""How far a kernel of the library reaches, declared beside it in its own arguments.

Every module with kernels has a function ``extents(isa)``; each declaration becomes the C function
``NAME_extent``, which the runtime asks when a plan is made (see :mod:`graphwright.targets.cpu.c.extent`). A
kernel without one is not built.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Final, NamedTuple

from graphwright.ir.symbols import Atom, Dim, Symbol, product, symbol
from graphwright.records import dataclass
from graphwright.targets.cpu.c.extent import (
    ARGS,
    FIRST,
    HELPERS,
    HOOK,
    SIGNATURE,
    SUFFIX,
    TILE,
    combined_text,
)

Axis = tuple[Dim, Dim]
"""Elements along an axis, and from one to the next."""

COUNT: Final = (0, 1 << 47)
"""What an argument may be unless its declaration says otherwise: less than any address."""
SIGNED: Final = (-(1 << 47), 1 << 47)
STEP: Final = (1, 1 << 31)
"""Of what is divided by, as strides and dilations of windows are."""
PAD: Final = (-(1 << 31), 1 << 31)
"""Of pads that may crop."""
SIZE: Final = (0, 1 << 31)
"""Of what is multiplied and bounded by no operand."""
FLAG: Final = (0, 1)
BITS: Final = (-(1 << 63), 1 << 63)
"""Of the bits of a float: anything."""
UNITS: Final = symbol("units")
"""The grid that a kernel is launched with."""

Bounds = dict[str, tuple[int, int]]
_AXES: Final = frozenset(
    ("n", "c", "cb", "d", "h", "w", "m", "k", "batch", "batch0", "batch1", "channel", "depth", "row")
)
"""The last words of strides."""


@dataclass(frozen=True)
class Reach:
    """Elements of ``item`` bytes along ``axes``, behind ``offset`` elements; none where an axis has none."""

    item: Dim
    axes: tuple[Axis, ...]
    offset: Dim = 0
    optional: bool = False
    """Whether the operand may be absent."""
    unhooked: bool = False
    """Whether it is touched only where there is no epilogue."""
    in_place: bool = False
    """Whether it may be absent where there is an epilogue, which finds its tiles there if it is not."""


class Tiles(NamedTuple):
    """What an epilogue is called for, tile by tile: all of [batch, rows, columns]."""

    batch: Dim
    rows: Dim
    columns: Dim


@dataclass(frozen=True)
class Extent:
    """What a kernel may touch. ``args`` names its arguments in order; expressions may also hold
    :data:`UNITS`.

    ``bounds``: what arguments may be, of those that are not :data:`COUNT`. ``multiples`` must be 0,
    ``at_least_0`` not negative. ``tiles``: of a kernel that takes an epilogue, behind its operands.
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
    """Whether the epilogue may not be absent."""

    def c_text(self) -> str:
        """The C function."""
        writer = _Writer(self.args)
        operands = len(self.operands) + (self.tiles is not None)
        writer.lines += [
            f"if (args < {len(self.args)} || operands < {operands})",
            "    return 1;",
            "const double units = out[0];",
            f"const int hooked = out[{HOOK}] > 0;",
            "(void)arg, (void)units, (void)hooked;",
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
    """Of a kernel whose C file has the function itself."""

    def c_text(self) -> str:
        return ""


def c_text(extents: tuple[Extent, ...]) -> str:
    """The C functions of ``extents``, behind the helpers that they need."""
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
    """Of the arguments ``args`` those that are strides of ``operands``, which may be negative: ``x_n`` or
    ``y_row``, say.
    """
    words = {name: name.rpartition("_") for name in args}
    strides = (name for name, (operand, _, axis) in words.items() if operand in operands and axis in _AXES)
    return within(SIGNED, *strides)


def window_bounds(args: tuple[str, ...]) -> Bounds:
    """Of the arguments ``args`` those that say where the taps of a window lie."""
    kinds = {"stride": STEP, "dilation": STEP, "pad": PAD, "kernel": SIZE}
    taps = within(SIZE, *(name for name in args if name in ("kd", "kh", "kw")))
    return taps | {name: kinds[name.split("_")[0]] for name in args if name.split("_")[0] in kinds}


class _Writer:
    """C statements; what occurs in several expressions is computed once."""

    def __init__(self, args: tuple[str, ...]) -> None:
        self.lines: list[str] = []
        self._names: dict[Atom, str] = {Symbol(name): f"a_{name}" for name in args}
        self._names[Symbol("units")] = "units"

    def text(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return f"{dim}.0" if dim >= 0 else f"({dim}.0)"
        terms = (
            " * ".join([self.text(coefficient), *(self._atom(a) for a, power in m for _ in range(power))])
            for m, coefficient in dim.terms
        )
        return f"({' + '.join(terms)})"

    def _atom(self, atom: Atom) -> str:
        if atom not in self._names:
            assert not isinstance(atom, Symbol), f"{atom} is no argument"
            text = combined_text(atom.name, [self.text(operand) for operand in atom.operands])
            name = f"t{len(self._names)}"
            self.lines.append(f"const double {name} = {text};")
            self._names[atom] = name
        return self._names[atom]

    def put(self, target: str, dim: Dim) -> None:
        text = self.text(dim)
        self.lines.append(f"{target} = {text};")

    def refuse(self, condition: str) -> None:
        self.lines += [f"if ({condition})", "    return 1;"]

    def write_reach(self, reach: Reach, target: str) -> None:
        """The end of what is touched; negative where the operand may be absent."""
        low, high, counts = [self.text(reach.offset)], [self.text(reach.offset)], []
        for count, stride in reach.axes:
            counts.append(f"{self.text(count)} > 0")
            if stride == 1:
                high.append(f"({self.text(count)} - 1)")
                continue
            way = f"({self.text(count)} - 1) * {self.text(stride)}"
            low.append(f"gw_least(0, {way})")
            high.append(f"gw_most(0, {way})")
        item = self.text(reach.item)
        conditions = ["!hooked", *counts] if reach.unhooked else counts
        self.lines.append(f"if ({' && '.join(conditions) or '1'}) {{")
        if low != ["0.0"]:
            self.lines += [f"    if (!({' + '.join(low)} >= 0))", "        return 1;"]
        sign = "-" if reach.optional else "(hooked ? -1 : 1) * " if reach.in_place else ""
        self.lines += [f"    {target} = {sign}({' + '.join(high)} + 1) * {item};", "}"]

"""How far a kernel of the library reaches, declared beside it in its own arguments.

The declaration becomes the C function ``NAME_extent``, which the runtime asks when a plan is made (see
:mod:`graphwright.kernels.c.extent`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphwright.ir.symbols import parse_dim
from graphwright.kernels.c.extent import HELPERS, SIGNATURE, SUFFIX, number_text
from graphwright.records import dataclass

Axis = tuple[str, str]
"""Elements along an axis, and from one to the next; expressions of arguments."""


@dataclass(frozen=True)
class Reach:
    """Elements of ``item`` bytes along ``axes``, behind ``offset`` elements. None where an axis has none."""

    item: str
    axes: tuple[Axis, ...]
    offset: str = "0"


@dataclass(frozen=True)
class Extent:
    """What a kernel may touch. ``args`` names its arguments in order; expressions may speak of ``units``, the
    grid that it is launched with, as well.
    """

    symbol: str
    args: tuple[str, ...]
    operands: tuple[Reach, ...]
    grid: str
    scratch: str = "0"

    def c_text(self) -> str:
        """The C function, behind the helpers that it needs."""
        names = {name: f"a_{name}" for name in self.args} | {"units": "units"}
        lines = [
            f"if (args < {len(self.args)} || operands < {len(self.operands)})",
            "    return 1;",
            "const double units = out[0];",
            "(void)units;",
            *(f"const double {names[name]} = (double)arg[{k}];" for k, name in enumerate(self.args)),
            *(f"(void){names[name]};" for name in self.args),
            f"out[0] = {_text(self.grid, names)};",
            f"out[1] = {_text(self.scratch, names)};",
        ]
        for position, reach in enumerate(self.operands):
            lines += _reach_lines(reach, position, names)
        body = "\n".join(f"    {line}" for line in [*lines, "return 0;"])
        head = f"GW_EXPORT int32_t {self.symbol}{SUFFIX}({SIGNATURE})"
        return f"{HELPERS}\n{head};\n{head} {{\n{body}\n}}\n"


def _reach_lines(reach: Reach, position: int, names: Mapping[str, str]) -> Iterator[str]:
    low = high = _text(reach.offset, names)
    for count, stride in reach.axes:
        way = f"({_text(count, names)} - 1) * {_text(stride, names)}"
        low, high = f"{low} + gw_least(0, {way})", f"{high} + gw_most(0, {way})"
    there = " && ".join(f"{_text(count, names)} > 0" for count, _ in reach.axes) or "1"
    yield f"if ({there}) {{"
    yield f"    if ({low} < 0)"
    yield "        return 1;"
    yield f"    out[{2 + position}] = ({high} + 1) * {_text(reach.item, names)};"
    yield "}"


def _text(expression: str, names: Mapping[str, str]) -> str:
    return number_text(parse_dim(expression), names)

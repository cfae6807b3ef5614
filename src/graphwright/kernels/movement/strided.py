"""C text of strided, interleaved and reversed row copies, with steps of 2, 3 or 4 elements.

Whole vectors are loaded and shuffled, since gather instructions read one element at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from graphwright.targets.cpu.isa import Isa

STEPS: Final = (2, 3, 4)


def c_text(size: int, isa: Isa) -> str:
    """``strided_SIZE``, also for reversed elements, and ``woven_SIZE``."""
    reverse = {-size: f"reverse_{size}(to, from, n)"}
    return "\n".join([_reverse(size, _widths(size, isa)), strided(size, isa, reverse), woven(size, isa)])


def strided(size: int, isa: Isa, others: Mapping[int, str] = MappingProxyType({})) -> str:
    """``strided_SIZE(to, from, s, n)`` copies elements that are s bytes apart to a dense row: every second,
    third or fourth element. It returns 0 if there is no loop for s. ``others`` are calls for other distances.
    """
    loops = [_pick(size, step, _widths(size, isa)) for step in STEPS]
    cases = {step * size: f"pick_{step}_{size}(to, from, n)" for step in STEPS}
    head = f"strided_{size}(char *to, const char *from, int64_t s, int64_t n)"
    return "\n".join([*loops, _switch(head, "s", {**others, **cases})])


def woven(size: int, isa: Isa, counts: Sequence[int] = STEPS) -> str:
    """``woven_SIZE(to, from, s, rows, n)`` joins dense rows, s bytes apart, to the columns of a dense matrix.
    It returns 0 if there is no loop for this number of rows.
    """
    loops = [_weave(size, count, _widths(size, isa)) for count in counts]
    cases = {count: f"weave_{count}_{size}(to, from, s, n)" for count in counts}
    head = f"woven_{size}(char *to, const char *from, int64_t s, int64_t rows, int64_t n)"
    return "\n".join([*loops, _switch(head, "rows", cases)])


def _switch(head: str, value: str, calls: Mapping[int, str]) -> str:
    cases = "".join(f"    case {number}: {call}; return 1;\n" for number, call in calls.items())
    return f"GW_INLINE int {head} {{\n    switch ({value}) {{\n{cases}    }}\n    return 0;\n}}"


def _widths(size: int, isa: Isa) -> tuple[int, ...]:
    """The bytes of vectors. Elements of 1 and 2 bytes are shuffled within 16 bytes, as wider shuffles take
    several instructions.
    """
    return (16,) if size < 4 else tuple(sorted({16, isa.vector_bytes}, reverse=True))


def _shuffle(a: str, b: str, lanes: Sequence[int]) -> str:
    return f"__builtin_shufflevector({a}, {b}, {', '.join(map(str, lanes))})"


def _merged(wanted: Sequence[tuple[int, int]], lanes: int, stem: str, name: str) -> tuple[list[str], str]:
    """Shuffles of the vectors x0, x1, ..., and the name of their result. Lane l of the result is lane
    ``wanted[l][1]`` of the vector ``wanted[l][0]``.
    """
    first, *others = sorted({vector for vector, _ in wanted})
    merged, lines = f"x{first}", []
    for other in others:
        order = [
            lanes + source if vector == other else lane if merged != f"x{first}" else source
            for lane, (vector, source) in enumerate(wanted)
        ]
        lines.append(f"const {name} {stem}{other} = {_shuffle(merged, f'x{other}', order)};")
        merged = f"{stem}{other}"
    return lines, merged


def _block(head: str, lines: Sequence[str]) -> str:
    return f"    {head} {{\n" + "".join(f"        {line}\n" for line in lines) + "    }"


def _pick(size: int, step: int, widths: Sequence[int]) -> str:
    """The functions process whole vectors only if another element follows, as they read up to it."""
    parts = [f"/* to[j] = from[{step} * j] */"]
    parts += [
        f"static void pick_{step}_{size}(char *to, const char *from, int64_t n) {{",
        "    int64_t j = 0;",
    ]
    for width in widths:
        lanes, name = width // size, f"t{size}x{width}"
        sources = [divmod(step * lane, lanes) for lane in range(lanes)]
        lines = [f"const char *at = from + j * {step * size};"]
        used = sorted({vector for vector, _ in sources})
        lines += [f"const {name} x{k} = *(const {name}_any *)(at + {k * width});" for k in used]
        merges, register = _merged(sources, lanes, "m", name)
        lines += [*merges, f"*({name}_any *)(to + j * {size}) = {register};"]
        parts.append(_block(f"for (; j + {lanes} < n; j += {lanes})", lines))
    parts += [
        "    for (; j < n; j++)",
        f"        ((e_{size} *)to)[j] = ((const e_{size} *)from)[{step} * j];",
        "}",
    ]
    return "\n".join(parts)


def _weave(size: int, step: int, widths: Sequence[int]) -> str:
    parts = [f"/* to[{step} * j + r] = row r of from, [j] */"]
    parts += [
        f"static void weave_{step}_{size}(char *to, const char *from, int64_t s, int64_t n) {{",
        "    int64_t j = 0;",
    ]
    for width in widths:
        lanes, name = width // size, f"t{size}x{width}"
        loads = (f"*(const {name}_any *)(from + {k} * s + j * {size})" for k in range(step))
        lines = [f"const {name} x{k} = {load};" for k, load in enumerate(loads)]
        for part in range(step):
            sources = [divmod(part * lanes + lane, step) for lane in range(lanes)]
            merges, vector = _merged([(row, j) for j, row in sources], lanes, f"m{part}_", name)
            to = f"to + j * {step * size} + {part * width}"
            lines += [*merges, f"*({name}_any *)({to}) = {vector};"]
        parts.append(_block(f"for (; j + {lanes} <= n; j += {lanes})", lines))
    parts += [
        "    for (; j < n; j++)",
        f"        for (int64_t r = 0; r < {step}; r++)",
        f"            ((e_{size} *)to)[{step} * j + r] = *(const e_{size} *)(from + r * s + j * {size});",
        "}",
    ]
    return "\n".join(parts)


def _reverse(size: int, widths: Sequence[int]) -> str:
    parts = ["/* to[j] = from[-j] */"]
    parts += [f"static void reverse_{size}(char *to, const char *from, int64_t n) {{", "    int64_t j = 0;"]
    for width in widths:
        lanes, name = width // size, f"t{size}x{width}"
        turned = _shuffle("x", "x", range(lanes - 1, -1, -1))
        lines = [
            f"const {name} x = *(const {name}_any *)(from - (j + {lanes - 1}) * {size});",
            f"*({name}_any *)(to + j * {size}) = {turned};",
        ]
        parts.append(_block(f"for (; j + {lanes} <= n; j += {lanes})", lines))
    parts += ["    for (; j < n; j++)", f"        ((e_{size} *)to)[j] = ((const e_{size} *)from)[-j];", "}"]
    return "\n".join(parts)

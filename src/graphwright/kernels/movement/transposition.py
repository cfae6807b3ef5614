"""C text of transposition in registers, for blocks of elements of 1, 2, 4 or 8 bytes.

Runs of 16 bytes of the source are loaded directly to lanes of registers, which minimizes the shuffles. A band
of the result is as wide as a vector or a cache line, and is written row by row.
"""

from __future__ import annotations

from typing import Final

from graphwright.targets.cpu.isa import Isa

_SIZES: Final = (1, 2, 4, 8)


def c_text(isa: Isa) -> str:
    """The C code that ``transposition.h`` includes: bands for each size and width."""
    bands = (_bands(size, isa) for size in _SIZES)
    return "\n".join(['#include "movement/lanes.h"\n', *bands])


def _bands(size: int, isa: Isa) -> str:
    lines = sorted({isa.vector_bytes, 64})
    return "\n".join([_band(size, 16, 16), *(_band(size, isa.vector_bytes, n) for n in lines)])


def _band(size: int, width: int, line: int) -> str:
    """A band of ``line`` bytes of columns of the result, which reads 16 bytes of rows at a time. Lane k of T
    registers holds a run of row k * T + i of the source. Perfect shuffles transpose them: log2(T) rounds
    interleave register i with register i + T/2.
    """
    name, runs, count = f"t{size}x{width}", 16 // size, width // size
    lanes = [f"at_{k} + from" for k in range(width // 16)]
    lines = [
        f"/* rows >= {runs} rows of dst, {line // size} elements each: as many columns of src. The last tile",
        "   overlaps the one before. */",
        f"GW_INLINE void band_{line}_{size}(char *dst, int64_t d, const char *src, int64_t s, int64_t rows,",
        "                       int stream) {",
        f"    for (int64_t i = 0; i < rows; i += {runs}) {{",
        f"        const int64_t row = i < rows - {runs} ? i : rows - {runs};",
        f"        for (int64_t part = 0; part < {line // width}; part++) {{",
        f"            const char *at_0 = src + part * {count} * s + row * {size};",
        *(f"            const char *at_{k} = at_{k - 1} + {runs} * s;" for k in range(1, len(lanes))),
        f"            char *to = dst + row * d + part * {width};",
        "            int64_t from = 0;",
    ]
    for i in range(runs):
        lines.append(f"            const {name} r0_{i} = ({name})lanes_{width}({', '.join(lanes)});")
        lines += ["            from += s;"] if i + 1 < runs else []
    lines += [f"            {step}" for step in _shuffles(name, runs, count)]
    for i in range(runs):
        put = f"put_{width}(to, (v{width})r{runs.bit_length() - 1}_{i}, stream);"
        lines.append(f"            {put}")
        lines += ["            to += d;"] if i + 1 < runs else []
    return "\n".join([*lines, "        }", "    }", "}"])


def _shuffles(name: str, runs: int, count: int) -> list[str]:
    """The shuffle rounds: from registers ``r0_i`` to ``r{log2(runs)}_i``."""
    half = runs // 2
    low, high = (
        ", ".join(
            f"{lane + k}, {lane + k + count}" for lane in range(first, count, runs) for k in range(half)
        )
        for first in (0, half)
    )
    lines = []
    for after in range(1, runs.bit_length()):
        for i in range(half):
            pair = f"r{after - 1}_{i}, r{after - 1}_{i + half}"
            lines += [
                f"const {name} r{after}_{2 * i} = __builtin_shufflevector({pair}, {low});",
                f"const {name} r{after}_{2 * i + 1} = __builtin_shufflevector({pair}, {high});",
            ]
    return lines

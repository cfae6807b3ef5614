"""C text of the transposition of a block of elements in registers."""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.targets.cpu.isa import Isa


def transpose(isa: Isa) -> str:
    """``transpose(from, ld, rows, cols, to, to_ld)``: ``to[c][r] = from[r][c]`` for at most VL x VL elements.
    Writes all VL elements of each of the ``cols`` rows of ``to``, with zeros where ``from`` has no row.

    Rounds interleave elements, then pairs of elements, of two registers within 128 bits, which is fast; only
    the last rounds move whole quarters (Eklundh, "A Fast Computer Method for Matrix Transposing", 1972, in an
    order that suits the instructions).
    """
    lanes = isa.lanes
    names = [f"r{i}" for i in range(lanes)]
    lines = [
        "static void transpose(const float *from, int64_t ld, int64_t rows, int64_t cols, float *to,",
        "                      int64_t to_ld) {",
        f"    vf {', '.join(f'{name} = {{0}}' for name in names)}, x;",
        f"    if (rows == {lanes} && cols == {lanes}) {{",
        *(f"        {name} = vf_load(from + {i} * ld);" for i, name in enumerate(names)),
        "    } else {",
        *(
            f"        if (rows > {i}) {name} = vf_load_n(from + {i} * ld, cols);"
            for i, name in enumerate(names)
        ),
        "    }",
    ]
    for a, b, low, high in _rounds(lanes):
        both = f"{names[a]}, {names[b]}"
        lines += [
            f"    x = __builtin_shufflevector({both}, {', '.join(map(str, low))});",
            f"    {names[b]} = __builtin_shufflevector({both}, {', '.join(map(str, high))});",
            f"    {names[a]} = x;",
        ]
    order = [4 * (i // 4) + (0, 2, 1, 3)[i % 4] for i in range(lanes)]
    lines += [f"    if (cols > {i}) vf_store(to + {i} * to_ld, {names[r]});" for i, r in enumerate(order)]
    return "\n".join([*lines, "}", ""])


def _rounds(lanes: int) -> Iterator[tuple[int, int, list[int], list[int]]]:
    """Pairs of registers (a, b), and the elements of both that become a and those that become b."""
    for size in (1, 2):
        low = [k for start in range(0, lanes, 4) for k in _interleaved(start, size, lanes)]
        high = [k for start in range(0, lanes, 4) for k in _interleaved(start + 2, size, lanes)]
        yield from ((i, i + size, low, high) for i in range(lanes) if not i & size)
    for distance in (4, 8)[: lanes // 8]:
        even = [k for half in (0, lanes) for k in _quarters(half, 0, lanes)]
        odd = [k for half in (0, lanes) for k in _quarters(half, 4, lanes)]
        yield from ((i, i + distance, even, odd) for i in range(lanes) if not i & distance)


def _interleaved(start: int, size: int, lanes: int) -> list[int]:
    """The elements of two registers from ``start`` on, ``size`` of each in turn, which fill 128 bits."""
    return [half + start + k + j for k in range(0, 2, size) for half in (0, lanes) for j in range(size)]


def _quarters(half: int, first: int, lanes: int) -> list[int]:
    """Every second four elements of one register, from element ``first`` on."""
    return [half + k + j for k in range(first, lanes, 8) for j in range(4)]

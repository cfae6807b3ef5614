"""C text of the transposition of a block of elements in registers."""

from __future__ import annotations

from graphwright.targets.cpu.isa import Isa


def transpose(isa: Isa) -> str:
    """``transpose(from, ld, rows, cols, to, to_ld)``: ``to[c][r] = from[r][c]`` for at most VL x VL elements.
    Writes all VL elements of each of the ``cols`` rows of ``to``, with zeros where ``from`` has no row. Each
    round swaps the off-diagonal halves of blocks (Eklundh, "A Fast Computer Method for Matrix Transposing",
    1972).
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
    distance = lanes // 2
    while distance:
        for i in (i for i in range(lanes) if not i & distance):
            low = [j if not j & distance else lanes + j - distance for j in range(lanes)]
            high = [j + distance if not j & distance else lanes + j for j in range(lanes)]
            a, b = names[i], names[i + distance]
            lines += [
                f"    x = __builtin_shufflevector({a}, {b}, {', '.join(map(str, low))});",
                f"    {b} = __builtin_shufflevector({a}, {b}, {', '.join(map(str, high))});",
                f"    {a} = x;",
            ]
        distance //= 2
    lines += [f"    if (cols > {i}) vf_store(to + {i} * to_ld, {name});" for i, name in enumerate(names)]
    return "\n".join([*lines, "}", ""])

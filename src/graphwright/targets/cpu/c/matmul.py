"""The ``matmul`` microkernel of generated code: ``out += a @ b`` on strided tiles.

Blocks of rows by two vectors of columns stay in registers for the whole depth (the outer-product scheme of
Goto and van de Geijn, 2008). Columns of ``b`` that are not contiguous, or fewer than two vectors of them, are
first packed into a panel on the stack, padded with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.types import DType
from graphwright.targets.cpu.c.dtypes import C_TYPES
from graphwright.targets.cpu.c.prelude import Prelude

_DEPTH = 128
"""Rows of ``b`` per panel: two vectors each, 16 KiB at most."""


def matmul_helper(prelude: Prelude, dtype: DType) -> str:
    """The name of ``void f(out, row stride, column stride, a, .., .., b, .., .., rows, columns, depth)``."""
    lanes = prelude.isa.vector_bytes // dtype.bytes
    name = f"matmul_{dtype}"
    if name in prelude.defined:
        return name
    for helper in ("load", "store", "splat"):
        prelude.function(helper, dtype, lanes)
    heights = (12, 4, 1) if prelude.isa.vector_bytes == 64 else (4, 1)
    vector, element = prelude.vector(dtype, lanes), C_TYPES[dtype.name]
    blocks = "\n".join(_block(vector, element, f"{dtype}x{lanes}", height, lanes) for height in heights)
    return prelude.define(name, f"{blocks.replace('MATMUL', name)}\n{_loops(name, element, lanes, heights)}")


def _loops(name: str, element: str, lanes: int, heights: Sequence[int]) -> str:
    """The function that packs panels of ``b`` if necessary, and runs the microkernels on blocks of rows."""
    columns = 2 * lanes
    rows = "\n".join(
        f"""\
            for (; m + {height} <= rows; m += {height})
                {name}_{height}(out + m * os + n * oc, os, oc, a + m * as + k * ac, as, ac, panel, step,
                    depth, width);"""
        for height in heights
    )
    return f"""\
static inline void {name}({element} *out, int64_t os, int64_t oc, const {element} *a, int64_t as, int64_t ac,
        const {element} *b, int64_t bs, int64_t bc, int64_t rows, int64_t columns, int64_t total) {{
    {element} copy[{_DEPTH} * {columns}];
    for (int64_t n = 0; n < columns; n += {columns}) {{
        const int64_t width = columns - n < {columns} ? columns - n : {columns};
        for (int64_t k = 0; k < total; k += {_DEPTH}) {{
            const int64_t depth = total - k < {_DEPTH} ? total - k : {_DEPTH};
            const {element} *panel = b + k * bs + n;
            int64_t step = bs, m = 0;
            if (bc != 1 || width < {columns}) {{
                for (int64_t i = 0; width < {columns} && i < depth * {columns}; ++i)
                    copy[i] = 0;
                for (int64_t j = 0; j < width; ++j) {{
                    const {element} *column = b + k * bs + (n + j) * bc;
                    for (int64_t i = 0; i < depth; ++i)
                        copy[i * {columns} + j] = column[i * bs];
                }}
                panel = copy;
                step = {columns};
            }}
{rows}
        }}
    }}
}}"""


def _block(vector: str, element: str, suffix: str, height: int, lanes: int) -> str:
    """The microkernel of ``height`` rows by two vectors."""
    sums = ", ".join(f"c{i}0 = {{0}}, c{i}1 = {{0}}" for i in range(height))
    steps = "\n".join(
        f"        x = splat_{suffix}(a[k * ac + {i} * as]), c{i}0 += x * b0, c{i}1 += x * b1;"
        for i in range(height)
    )
    whole = "\n".join(
        f"        p = out + {i} * os;\n"
        f"        store_{suffix}(p, load_{suffix}(p) + c{i}0);\n"
        f"        store_{suffix}(p + {lanes}, load_{suffix}(p + {lanes}) + c{i}1);"
        for i in range(height)
    )
    ragged = "\n".join(
        f"    for (int64_t j = 0; j < width; ++j)\n"
        f"        out[{i} * os + j * oc] += j < {lanes} ? c{i}0[j] : c{i}1[j - {lanes}];"
        for i in range(height)
    )
    return f"""\
static inline void MATMUL_{height}({element} *out, int64_t os, int64_t oc, const {element} *a,
        int64_t as, int64_t ac, const {element} *b, int64_t step, int64_t depth, int64_t width) {{
    {vector} {sums};
    for (int64_t k = 0; k < depth; ++k) {{
        const {vector} b0 = load_{suffix}(b + k * step), b1 = load_{suffix}(b + k * step + {lanes});
        {vector} x;
{steps}
    }}
    if (oc == 1 && width == {2 * lanes}) {{
        {element} *p;
{whole}
        return;
    }}
{ragged}
}}"""

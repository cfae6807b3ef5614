"""C text of products in which M, N or K is very small.

They are bound by memory: matrices are read and written once, in order. If the result is a single row or
column, its elements are dot products if the matrix is contiguous along K; otherwise rows of the matrix are
summed, eight at a time. If K is short, rows of the result are computed one after the other. The order of each
sum does not depend on how elements are grouped, so every division into chunks gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

LINE: Final = 1024
"""Elements of the result that are computed at a time; they stay in the L1 cache."""
_ROWS: Final = 4
"""Rows of the matrix whose dot products share loads of the vector."""
_CHAINS: Final = 2
"""Accumulators of each dot product, which hide the latency of FMAs."""
_ADDED: Final = 8
"""Rows that are summed at a time."""
_SHORT: Final = 8
"""The longest K for which products are computed row by row."""
NARROW: Final = 4
"""The most columns that are computed as dot products with each row of A; tiles would take as long as for a
whole vector.
"""


def c_text() -> str:
    """The C code that ``gemv.h`` includes: dot products, sums of rows, and products with short K, unrolled
    for numbers of rows.
    """
    sizes = (
        f"LINE = {LINE}, NARROW = {NARROW}, DOT_ROWS = {_ROWS}, DOT_STEP = {_CHAINS} * VL, ADDED = {_ADDED}, "
        f"SHORT_K = {_SHORT}"
    )
    lines = [*map(_dots, range(1, _ROWS + 1)), _added(_ADDED), _added(1)]
    rows = [_short(k) for k in range(1, _SHORT + 1)]
    table = ", ".join(f"short_{k}" for k in range(1, _SHORT + 1))
    return "\n".join([f"enum {{ {sizes} }};", *lines, *rows, _SHORT_TABLE.replace("TABLE", table)])


def _dots(rows: int) -> str:
    cells = [(r, c) for r in range(rows) for c in range(_CHAINS)]
    return "\n".join(
        [
            f"/* out[r] = the dot product of q and the row at p + r * step, {rows} of them. */",
            f"static void dots_{rows}(const float *p, int64_t step, const float *q, int64_t k,",
            "                   float *out) {",
            f"    vf {', '.join(f's{r}_{c} = {{0}}' for r, c in cells)};",
            "    int64_t i = 0;",
            "    (void)step;",
            "    for (; i + DOT_STEP <= k; i += DOT_STEP) {",
            *(f"        const vf q{c} = vf_load(q + i + {c} * VL);" for c in range(_CHAINS)),
            *_steps((f"s{r}_{c}", f"vf_load(p + {r} * step + i + {c} * VL)", f"q{c}") for r, c in cells),
            "    }",
            "    for (; i < k; i += VL) {",
            "        const vf q0 = load_most(q + i, k - i);",
            *_steps((f"s{r}_0", f"load_most(p + {r} * step + i, k - i)", "q0") for r in range(rows)),
            "    }",
            *(
                f"    out[{r}] = vf_sum({' + '.join(f's{r}_{c}' for c in range(_CHAINS))});"
                for r in range(rows)
            ),
            "}",
        ]
    )


def _steps(products: Iterable[tuple[str, str, str]]) -> list[str]:
    return [f"        {total} = vf_fma({a}, {b}, {total});" for total, a, b in products]


def _added(rows: int) -> str:
    load = [f"vf_load_n(p + {r} * step + i, cells - i)" for r in range(rows)]
    return "\n".join(
        [
            f"/* out += the {rows} rows at p, each times its number; out ends with a whole vector. */",
            f"static void add_{rows}(const float *p, int64_t step, const float *x, int64_t x_step,",
            "                  int64_t cells, float *out) {",
            *(f"    const vf x{r} = vf_set1(x[{r} * x_step]);" for r in range(rows)),
            "    int64_t i = 0;",
            "    (void)step, (void)x_step;",
            "    for (; i + VL <= cells; i += VL) {",
            "        vf total = {0};",
            *_steps(("total", f"vf_load(p + {r} * step + i)", f"x{r}") for r in range(rows)),
            "        vf_store(out + i, vf_load(out + i) + total);",
            "    }",
            "    if (i < cells) {",
            "        vf total = {0};",
            *_steps(("total", at, f"x{r}") for r, at in enumerate(load)),
            "        vf_store(out + i, vf_load(out + i) + total);",
            "    }",
            "}",
        ]
    )


def _short(k: int) -> str:
    numbers = [f"const vf x{j} = vf_set1(a[r * a_m + {j} * a_k]);" for j in range(k)]

    def total(rows: Sequence[str]) -> list[str]:
        added = [f"total = vf_fma(x{j}, {row}, total);" for j, row in enumerate(rows) if j]
        return [f"vf total = x0 * {rows[0]};", *added]

    whole = [*total([f"vf_load(b + {j} * b_k + i)" for j in range(k)]), "vf_store(out + r * ld + i, total);"]
    rest = [*numbers, *total([f"y{j}" for j in range(k)]), "vf_store_n(out + r * ld + i, total, cols - i);"]
    return "\n".join(
        [
            f"/* out[r][i] = the sum of {k} numbers of row r of a, each times its row of b. */",
            f"static void short_{k}(const float *a, int64_t a_m, int64_t a_k, const float *b, int64_t b_k,",
            "                    int64_t rows, int64_t cols, float *out, int64_t ld) {",
            "    const int64_t vectors = cols / VL * VL, i = vectors;",
            "    (void)a_k, (void)b_k;",
            "    for (int64_t r = 0; vectors && r < rows; r++) {",
            *(f"        {line}" for line in numbers),
            "        for (int64_t i = 0; i < vectors; i += VL) {",
            *(f"            {line}" for line in whole),
            "        }",
            "    }",
            "    if (vectors == cols)",
            "        return;",
            *(f"    const vf y{j} = vf_load_n(b + {j} * b_k + i, cols - i);" for j in range(k)),
            "    for (int64_t r = 0; r < rows; r++) {",
            *(f"        {line}" for line in rest),
            "    }",
            "}",
        ]
    )


_SHORT_TABLE: Final = """
typedef void short_fn(const float *a, int64_t a_m, int64_t a_k, const float *b, int64_t b_k, int64_t rows,
                      int64_t cols, float *out, int64_t ld);
static short_fn *const short_of[] = {TABLE};
"""

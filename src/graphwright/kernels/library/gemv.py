"""Products with a single row or column in the result, as C: what counts is to read the matrix once, in order.

Where the matrix lies along K, each of its rows is a dot product; where it lies across, its rows are added up,
eight at a time. A cell's sum is the same however the cells are grouped, so any chunking gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LINE: Final = 1024
"""Cells computed at a time: they stay in the first-level cache."""
_ROWS: Final = 4
"""Rows of the matrix whose dot products share the loads of the vector."""
_CHAINS: Final = 2
"""Sums of each dot product, so that FMAs do not wait for each other."""
_ADDED: Final = 8
"""Rows added up at a time."""


def c_text() -> str:
    """``run_line`` and what it calls, after the structs and helpers of a GEMM."""
    constants = (
        f"enum {{ LINE = {LINE}, DOT_ROWS = {_ROWS}, DOT_STEP = {_CHAINS} * VL, ADDED = {_ADDED} }};\n"
    )
    return "\n".join([constants, _dots(1), _dots(_ROWS), _DOTS, _added(_ADDED), _added(1), _LINES])


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
            "        vf total = vf_load(out + i);",
            *_steps(("total", f"vf_load(p + {r} * step + i)", f"x{r}") for r in range(rows)),
            "        vf_store(out + i, total);",
            "    }",
            "    if (i < cells) {",
            "        vf total = vf_load(out + i);",
            *_steps(("total", at, f"x{r}") for r, at in enumerate(load)),
            "        vf_store(out + i, total);",
            "    }",
            "}",
        ]
    )


_DOTS: Final = """
/* Dot products of q and count rows. */
static void dots(const float *p, int64_t step, int64_t count, const float *q, int64_t k, float *out) {
    int64_t r = 0;
    for (; r + DOT_ROWS <= count; r += DOT_ROWS)
        dots_4(p + r * step, step, q, k, out + r);
    for (; r < count; r++)
        dots_1(p + r * step, step, q, k, out + r);
}
"""

_LINES: Final = """
/* out = the sum of k rows at p, each times its number. */
static void add_up(const float *p, int64_t step, const float *x, int64_t x_step, int64_t k, int64_t cells,
                   float *out) {
    int64_t j = 0;
    memset(out, 0, (size_t)parts(cells, VL) * VL * sizeof *out);
    for (; j + ADDED <= k; j += ADDED)
        add_8(p + j * step, step, x + j * x_step, x_step, cells, out);
    for (; j < k; j++)
        add_1(p + j * step, step, x + j * x_step, x_step, cells, out);
}

/* The product as a matrix and a vector: cells of the result along rows or columns. */
struct line {
    const float *matrix, *vector;
    int64_t cell, matrix_k, vector_k;         /* strides of both */
    int64_t bias, residual, result, is_row; /* strides along the cells; whether they are one row */
};

static struct line line_of(const struct gemm *g) {
    const struct args *s = &g->s;
    if (s->n == 1 && !(s->m == 1 && s->b_n == 1 && s->b_k != 1))
        return (struct line){g->a, g->b, s->a_m, s->a_k, s->b_k, s->bias_m, s->r_m, s->c_m, 0};
    return (struct line){g->b, g->a, s->b_n, s->b_k, s->a_k, s->bias_n, s->r_n, s->c_n, 1};
}

/* Whether the result is a row or a column that the loops here do: short dot products spend their time in the
   sum of the lanes. */
static int is_line(const struct gemm *g) {
    if (g->packed || g->codes || (g->s.m != 1 && g->s.n != 1))
        return 0;
    const struct line l = line_of(g);
    return (l.matrix_k == 1 && l.vector_k == 1 && g->s.k >= 2 * VL) || (l.cell == 1 && g->s.k >= ADDED);
}

/* The cells of a block. */
static int32_t run_line(const struct gemm *g, const struct block *o) {
    float out[LINE + VL] __attribute__((aligned(64)));
    struct line l = line_of(g);
    const int64_t tiles = parts(g->s.m, MR), k = g->s.k;
    const int64_t first = l.is_row ? column(g, o->panel0) : cut(g->s.m, o->tile0, tiles);
    const int64_t last = l.is_row ? column(g, o->panel1) : cut(g->s.m, o->tile1, tiles);
    const int64_t a = o->batch0 * g->s.a_batch0 + o->batch1 * g->s.a_batch1;
    const int64_t b = o->batch0 * g->s.b_batch0 + o->batch1 * g->s.b_batch1;
    l.matrix += l.is_row ? b : a;
    l.vector += l.is_row ? a : b;
    for (int64_t at = first, cells; at < last; at += cells) {
        cells = smaller(last - at, LINE);
        if (l.matrix_k == 1 && l.vector_k == 1)
            dots(l.matrix + at * l.cell, l.cell, cells, l.vector, k, out);
        else
            add_up(l.matrix + at, l.matrix_k, l.vector, l.vector_k, k, cells, out);
        for (int64_t i = 0; g->scale != 1 && i < cells; i++)
            out[i] *= g->scale;
        if (g->bias)
            add_rows(g->bias + at * l.bias, 0, l.bias, 1, cells, out, cells);
        if (g->residual)
            add_rows(g->residual + o->batch0 * g->s.r_batch0 + o->batch1 * g->s.r_batch1 + at * l.residual, 0,
                     l.residual, 1, cells, out, cells);
        const struct tile t = {.to = out, .to_ld = cells, .relu = g->s.act == 1,
                               .clip = g->s.act == 2 ? g->clip : NULL};
        if (t.relu || t.clip)
            activate(1, parts(cells, VL), &t);
        const int64_t rows = l.is_row ? 1 : cells, cols = l.is_row ? cells : 1;
        const int64_t batch = o->batch0 * g->s.batch1 + o->batch1;
        if (!g->hook) {
            float *c = g->c + o->batch0 * g->s.c_batch0 + o->batch1 * g->s.c_batch1 + at * l.result;
            store_tile(out, cells, 1, cells, c, 0, l.result);
            continue;
        }
        const int32_t error = g->hook(g->hook_buf, g->hook_arg, out, cols, batch, l.is_row ? 0 : at, rows,
                                      l.is_row ? at : 0, cols);
        if (error)
            return error;
    }
    return 0;
}
"""

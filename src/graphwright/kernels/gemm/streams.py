"""C text of micro-kernels for few rows: they are bound by reading B, and read several of its panels in
parallel.
"""

from __future__ import annotations

from graphwright.kernels.library.tile import PAIR_TARGET, TileShape
from graphwright.targets.cpu.isa import Isa


def streams(shape: TileShape, isa: Isa, *, pairs: bool = False) -> str:
    """``stream_of[rows - 1][panels > 1](k, a, lda, b, stride, &t)``: a few rows times adjacent panels of B.
    They are bound by reading B, whose panels are ``stride`` elements apart. ``stream_panels[rows - 1]``
    panels are read in parallel, or one. A is read in address, with rows ``lda`` apart. The tile is as wide as
    its panels together. The number of panels does not change the bits. ``pairs``: of bf16.
    """
    counts = [_stream_panels(shape, rows) for rows in range(1, shape.rows + 1)]
    functions = [
        _stream(shape, isa, r + 1, n, pairs) for r, most in enumerate(counts) for n in sorted({1, most})
    ]
    table = ",\n".join(f"    {{stream_{r + 1}x1, stream_{r + 1}x{n}}}" for r, n in enumerate(counts))
    return f"""\
#define STREAM_CELLS {_stream_cells(shape, isa)} /* the most that a tile has */
{"".join(functions)}
typedef void (*stream_fn)(int64_t k, const float *a, int64_t lda, const float *b, int64_t stride,
                          const struct tile *t);
static const stream_fn stream_of[{shape.rows}][2] = {{
{table},
}};
/* Panels that are read side by side with this many rows of A. */
static const int8_t stream_panels[{shape.rows}] = {{{", ".join(map(str, counts))}}};
"""


def _stream_cells(shape: TileShape, isa: Isa) -> int:
    """The elements of the largest tile of :func:`streams`."""
    return shape.columns(isa) * max(r * _stream_panels(shape, r) for r in range(1, shape.rows + 1))


def _stream_panels(shape: TileShape, rows: int) -> int:
    """The panels read in parallel: 4, 2 or 1, as many as fit in the registers of the largest tile."""
    room = shape.rows * shape.vectors
    return next(n for n in (4, 2, 1) if rows * shape.vectors * n <= room or n == 1)


def _stream(shape: TileShape, isa: Isa, rows: int, panels: int, pairs: bool) -> str:
    columns = [(f"b{p}", f"{v} * VL") for p in range(panels) for v in range(shape.vectors)]
    width = shape.columns(isa)
    turn = shape.unroll

    def step(number: int) -> list[str]:
        addresses = [f"{name} + {number} * {width} + {at}" for name, at in columns]
        product = "DOT_PAIRS" if pairs else "ACCUMULATE"
        return _step([f"a{r}[{number}]" for r in range(rows)], addresses, product)

    pointers = [f"*b{p} = b + {p} * stride" for p in range(panels)]
    pointers += [f"*a{r} = a + {r} * lda" for r in range(rows)]
    advance = [f"b{p} += @ * {width}" for p in range(panels)] + [f"a{r} += @" for r in range(rows)]
    lines = [
        f"{PAIR_TARGET * pairs}static void stream_{rows}x{panels}(int64_t k, const float *a, int64_t lda, "
        "const float *b, "
        "int64_t stride, const struct tile *t) {",
        f"    const float {', '.join(pointers)};",
        "    (void)stride, (void)lda;",
        *clear_sums(rows, len(columns)),
        "    const float *ahead = t->ahead;",
        f"    for (; k >= {turn}; k -= {turn}, {', '.join(advance).replace('@', str(turn))}) {{",
    ]
    fetches = [f"            __builtin_prefetch(ahead + {p} * stride, 0, 3);" for p in range(panels)]
    lines += ["        for (int64_t i = 0; i < t->ahead_lines; i++, ahead += 16) {", *fetches, "        }"]
    for number in range(turn):
        lines += step(number)
    rest = ", ".join(advance).replace("@", "1")
    lines += ["    }", f"    for (; k > 0; k--, {rest}) {{", *step(0), "    }"]
    return "\n".join([*lines, *store_sums(rows, len(columns)), "}", "", ""])


def clear_sums(rows: int, vectors: int) -> list[str]:
    """Clears the accumulators."""
    return [f"    vf {', '.join(f'c{r}_{v}_0 = {{0}}' for r in range(rows) for v in range(vectors))};"]


def _addends(rows: int, vectors: int) -> list[str]:
    """Adds what ``struct tile`` says to the finished sums."""
    cells = [(r, v) for r in range(rows) for v in range(vectors)]
    values = {
        "added": "vf_load(t->added + {r} * t->added_ld + {v} * VL)",
        "row": "vf_load(t->row + {v} * VL)",
        "column": "vf_set1(t->column[{r} * t->column_ld])",
    }
    lines: list[str] = []
    for name, value in values.items():
        sums = [f"        c{r}_{v}_0 += {value.format(r=r, v=v)};" for r, v in cells]
        lines += [f"    if (t->{name}) {{", *sums, "    }"]
    return lines


def store_sums(rows: int, vectors: int) -> list[str]:
    """Adds the addends, applies the activation, and stores."""
    cells = [f"c{r}_{v}_0" for r in range(rows) for v in range(vectors)]
    lines = _addends(rows, vectors)
    lines += ["    if (t->relu) {", *(f"        {c} = vf_relu({c});" for c in cells), "    }"]
    lines += [
        "    if (t->clip) {",
        "        const vf low = vf_set1(t->clip[0]), high = vf_set1(t->clip[1]);",
        *(f"        {c} = vf_min(vf_max({c}, low), high);" for c in cells),
        "    }",
        "    float *to = t->to;",
    ]
    for r in range(rows):
        lines += [f"    vf_store(to + {v} * VL, c{r}_{v}_0);" for v in range(vectors)]
        lines += ["    to += t->to_ld;"] if r < rows - 1 else []
    return lines


def _step(numbers: list[str], addresses: list[str], product: str) -> list[str]:
    """The FMAs of one k, by the macro ``product``: ``numbers``, one per row of A, times the vectors of B at
    ``addresses``.
    """
    lines = ["        {"]
    lines += [f"            const vf x{v} = vf_load({address});" for v, address in enumerate(addresses)]
    for r, number in enumerate(numbers):
        lines += [f"            const vf y{r} = vf_set1({number});"]
        lines += [f"            {product}(c{r}_{v}_0, y{r}, x{v});" for v in range(len(addresses))]
    return [*lines, "        }"]

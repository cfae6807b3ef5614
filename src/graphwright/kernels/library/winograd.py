"""Winograd convolution, 3x3 with stride 1: y = act(conv(x, w) + bias + residual), f32, blocked activations.

An output tile of m x m pixels takes (m + 2)^2 products per pair of channels where direct convolution takes
9 m^2 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015). F(4x4) interpolates at 0,
+-sqrt(1/2), +-sqrt(2) and infinity, which doubles direct's rms error where the points 1 and 2 make it four
times as large (on points: Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution
for Deep Neural Networks", 2020; Alam et al., "Winograd Convolution for Deep Neural Networks: Efficient Point
Selection", 2022). F(2x2) is more exact than direct.

A unit of the grid is a block of tiles of one image times some output channels: the input's transform goes
to scratch as (m + 2)^2 planes in the blocked layout, each plane is multiplied with its matrix of weights, and
the products are transformed back. Units of one block in a chunk share the transformed input. Every sum runs
over the channels in order, whatever the chunking.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from graphwright.ir.symbols import Dim, ceildiv, evaluate, floordiv, maximum, minimum
from graphwright.kernels.library.isa import Isa, prelude
from graphwright.kernels.library.tile import HELPERS

SYMBOLS: Final = {4: "gw_winograd4_f32", 2: "gw_winograd2_f32"}
"""The kernel of each m."""

OPERANDS: Final = ("x", "w", "bias", "residual", "y")
"""``w`` as :func:`transform_weights` gives it; ``bias`` [channel blocks * VL] and ``residual`` (as y)
may be absent; ``y`` is ignored when there is a hook. The hook, or a null pointer, comes next; a tile is some
pixels (rows) of one channel block (columns), its batch the image times the channel blocks plus the block."""

Array = npt.NDArray[Any]


class WinogradArgs(NamedTuple):
    """The kernel's args in ABI order; strides in elements. Pads at the end follow from oh and ow."""

    images: Dim
    cin: Dim
    cout: Dim
    h: Dim
    w: Dim
    oh: Dim
    ow: Dim
    pad_top: Dim
    pad_left: Dim
    x_n: Dim
    x_cb: Dim
    x_h: Dim
    r_n: Dim
    r_cb: Dim
    r_h: Dim
    y_n: Dim
    y_cb: Dim
    y_h: Dim
    act: Dim
    """0 none, 1 relu, 2 clip to [lo, hi]."""
    lo: Dim
    """The bits of an f32, as are those of ``hi``."""
    hi: Dim
    block_tiles: Dim
    """Tiles of a block at most, and output channel blocks of a unit: see :func:`blocking`."""
    unit_blocks: Dim


_POINTS: Final = {2: (0.0, 1.0, -1.0), 4: (0.0, 0.5**0.5, -(0.5**0.5), 2.0**0.5, -(2.0**0.5))}
"""Where the polynomials are evaluated, apart from infinity."""


def _weight_matrix(m: int) -> Array:
    """G [m + 2, 3], f64: a filter's values at the points, over the products of the points' differences."""
    points = _POINTS[m]
    rows = []
    for i, p in enumerate(points):
        scale = np.prod([p - q for j, q in enumerate(points) if j != i])
        rows.append([1 / scale, p / scale, p * p / scale])
    return np.array([*rows, [0.0, 0.0, 1.0]])


def transformed_shape(cout: int, cin: int, m: int, isa: Isa) -> tuple[int, int]:
    """The shape of what :func:`transform_weights` makes."""
    return (m + 2) ** 2, -(-cout // isa.lanes) * cin * isa.lanes


_TRANSFORMED_BYTES: Final = 1 << 18
"""Bytes of f64 that are made at once, in the cache."""


def transform_weights(out: Array, w: Array, m: int, isa: Isa) -> None:
    """Weights [Cout, Cin, 3, 3] into f32 [(m + 2)^2, CoutB * Cin * VL], transformed in f64, rounded once.

    Each plane holds pairs of output channel blocks as [Cin, 2, VL], then a last single block as [Cin, VL].
    """
    cout, cin = w.shape[:2]
    matrix, lanes = np.kron(_weight_matrix(m), _weight_matrix(m)), isa.lanes
    planes, blocks = len(matrix), -(-cout // lanes)
    pairs, paired = blocks // 2, blocks // 2 * 2 * lanes
    front = out[:, : paired * cin].reshape(planes, pairs, cin, 2 * lanes)
    back = out[:, paired * cin :].reshape(planes, blocks % 2, cin, lanes)
    step = max(1, _TRANSFORMED_BYTES // (planes * blocks * lanes * 8))
    for first in range(0, cin, step):
        part = w[:, first : first + step]
        count = part.shape[1]
        padded = np.zeros((9, count, blocks * lanes))
        padded[..., :cout] = part.transpose(2, 3, 1, 0).reshape(9, count, cout)
        made = (matrix @ padded.reshape(9, -1)).reshape(planes, count, blocks * lanes)
        channels = np.s_[:, :, first : first + count]
        front[channels] = made[..., :paired].reshape(planes, count, pairs, 2 * lanes).swapaxes(1, 2)
        back[channels] = made[..., paired:].reshape(planes, count, blocks % 2, lanes).swapaxes(1, 2)


_L2_BYTES: Final = 1 << 20

_BLOCK_TILES: Final = 28
"""Tiles of a block: transformed input, products and weights of 64 channels fit the L2 cache."""

_UNIT_CHANNELS: Final = 256
"""Output channels of a unit at most."""

_FEW_BLOCKS: Final = 4
"""Fewer blocks of tiles than this do not occupy two threads evenly."""

_UNROLL: Final = 4
"""Channels per turn of a product's loop."""

_FETCHES: Final = 2
"""Prefetches per turn: each brings the neighbouring cache line along; more cost more than they gain."""

_RUN: Final = 14
"""Tiles of a row that are transformed at once."""


def product_rows(isa: Isa) -> int:
    """Tiles that a product takes, by two blocks of output channels: 28 of 32 or 12 of 16 registers."""
    return 14 if isa.vector_bytes == 64 else 6


def tiles(m: int, args: WinogradArgs) -> Dim:
    """Output tiles of an image."""
    return ceildiv(args.oh, m) * ceildiv(args.ow, m)


def grid(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """Units of work: images, blocks of tiles, blocks of output channels (fastest)."""
    blocks = ceildiv(tiles(m, args), args.block_tiles)
    return args.images * blocks * ceildiv(ceildiv(args.cout, isa.lanes), args.unit_blocks)


def _plane(isa: Isa, blocks: Dim, tiles: Dim) -> Dim:
    """Elements from one plane to the next: an odd number of cache lines, so that planes do not alias."""
    return (2 * floordiv(blocks * tiles * isa.lanes, 32) + 3) * 16


def scratch_bytes(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """The planes of a block's input and those of a unit's products."""
    inputs = _plane(isa, ceildiv(args.cin, isa.lanes), args.block_tiles)
    products = _plane(isa, args.unit_blocks, args.block_tiles)
    return 4 * (m + 2) ** 2 * (inputs + products)


def blocking(m: int, isa: Isa, images: Dim, cin: int, cout: int, oh: Dim, ow: Dim) -> tuple[Dim, Dim]:
    """``block_tiles`` and ``unit_blocks``, by sizes alone.

    Weights that the L2 cache does not hold come from beyond it for each block, so more tiles share them.
    A few blocks make two units each, that two threads have work.
    """
    weights = 4 * (m + 2) ** 2 * cin * cout
    most = _BLOCK_TILES * (2 if weights > _L2_BYTES else 1) // product_rows(isa) * product_rows(isa)
    count = ceildiv(oh, m) * ceildiv(ow, m)
    blocks = maximum(1, ceildiv(count, most))
    out_blocks = -(-cout // isa.lanes)
    half = 2 * -(-out_blocks // 4)
    whole = min(out_blocks, _UNIT_CHANNELS // isa.lanes)
    unit = minimum(whole, maximum(half, whole * floordiv(images * blocks, _FEW_BLOCKS)))
    return maximum(1, ceildiv(count, blocks)), unit


def dense_args(
    m: int, isa: Isa, images: Dim, cin: int, cout: int, oh: Dim, ow: Dim, *,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0), act: int = 0, lo: int = 0, hi: int = 0,
) -> WinogradArgs:  # fmt: skip
    """The args for dense operands; ``pads``: top, left, bottom, right; ``lo``, ``hi``: bits of an f32."""
    h, w = oh + 2 - pads[0] - pads[2], ow + 2 - pads[1] - pads[3]
    block_tiles, unit_blocks = blocking(m, isa, images, cin, cout, oh, ow)
    x_strides = _dense_strides(isa, cin, h, w)
    y_strides = _dense_strides(isa, cout, oh, ow)
    return WinogradArgs(
        images, cin, cout, h, w, oh, ow, pads[0], pads[1], *x_strides, *y_strides, *y_strides,
        act, lo, hi, block_tiles, unit_blocks,
    )  # fmt: skip


def _dense_strides(isa: Isa, channels: int, h: Dim, w: Dim) -> tuple[Dim, Dim, Dim]:
    """From one image, channel block and row to the next."""
    row = w * isa.lanes
    return -(-channels // isa.lanes) * h * row, h * row, row


@dataclass(frozen=True)
class _Speeds:
    """What one core does: products in GFLOP/s, nanoseconds to transform a tile of VL channels in and out."""

    gflops: int
    direct_gflops: int
    transforms_ns: dict[int, int]


_SPEEDS: Final = {
    "v4": _Speeds(gflops=118, direct_gflops=126, transforms_ns={4: 230, 2: 63}),
    "v3": _Speeds(gflops=56, direct_gflops=58, transforms_ns={4: 200, 2: 60}),
}
"""Cascade Lake at 2.1 GHz under AVX-512, whose limit is 137 GFLOP/s, and under AVX2."""

_MEMORY_GBS: Final = 11
"""Weights come from memory, since a model's other layers have gone through the caches since. Cascade Lake."""

_L3_GBS: Final = 25
_L3_BYTES: Final = 24 << 20
"""Weights that the L3 cache keeps come from there for the blocks after the first. Cascade Lake, 36 MiB."""


def _overlapped(compute_ns: Dim, stream_ns: Dim) -> Dim:
    """Weights stream by while products are formed; measured, the shorter still costs 0.4 of itself."""
    return maximum(compute_ns, stream_ns) + floordiv(2 * minimum(compute_ns, stream_ns), 5)


def work_ns(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """Time on one core: products and the stream of weights, then both transforms."""
    speeds = _SPEEDS[isa.name]
    in_blocks, out_blocks = ceildiv(args.cin, isa.lanes), ceildiv(args.cout, isa.lanes)
    count = args.images * tiles(m, args)
    flops = 2 * (m + 2) ** 2 * count * args.cin * out_blocks * isa.lanes
    weights = 4 * (m + 2) ** 2 * args.cin * out_blocks * isa.lanes
    again = (args.images * ceildiv(tiles(m, args), args.block_tiles) - 1) * weights
    again *= minimum(1, floordiv(weights, _L2_BYTES))
    kept = minimum(1, floordiv(_L3_BYTES, maximum(1, weights)))
    stream = ceildiv(weights + (1 - kept) * again, _MEMORY_GBS) + floordiv(kept * again, _L3_GBS)
    # planes that the L2 cache does not hold are written to the next one and read again
    planes = scratch_bytes(m, isa, args)
    passes = floordiv(args.images * tiles(m, args), maximum(1, args.block_tiles))
    stream += minimum(1, floordiv(planes, _L2_BYTES)) * floordiv(2 * planes * passes, _L3_GBS)
    transforms = floordiv(count * (in_blocks + out_blocks) * speeds.transforms_ns[m], 2)
    return _overlapped(ceildiv(flops, speeds.gflops), stream) + transforms


def _direct_ns(isa: Isa, images: int, cin: int, cout: int, oh: int, ow: int) -> int:
    """What direct convolution of the same sizes takes."""
    outputs = -(-cout // isa.lanes) * isa.lanes
    flops, weights = 18 * images * oh * ow * cin * outputs, 36 * cin * outputs
    compute, stream = flops // _SPEEDS[isa.name].direct_gflops, weights // _MEMORY_GBS
    return max(compute, stream) + 2 * min(compute, stream) // 5


def choose(isa: Isa, images: int, cin: int, cout: int, oh: int, ow: int) -> Literal["direct", 2, 4]:
    """Which takes least on dense blocked images: direct, or Winograd with tiles of 2 x 2 or of 4 x 4."""
    costs: dict[Literal["direct", 2, 4], Dim] = {"direct": _direct_ns(isa, images, cin, cout, oh, ow)}
    forms: tuple[Literal[2, 4], ...] = (2, 4)
    for m in forms:
        costs[m] = work_ns(m, isa, dense_args(m, isa, images, cin, cout, oh, ow, pads=(1, 1, 1, 1)))
    return min(costs, key=lambda form: evaluate(costs[form], {}))


def source(isa: Isa) -> str:
    """One C11 file with :data:`SYMBOLS`."""
    constants = f"""
#define ROWS {product_rows(isa)} /* tiles of a product at most */
#define ARGS {len(WinogradArgs._fields)}
#define RUN {_RUN} /* tiles of a row that are transformed at once */
#define TURN {_UNROLL // _FETCHES} /* channels per prefetch */
#define OPERANDS {len(OPERANDS)}
"""
    fields = f"struct args {{\n    int64_t {', '.join(WinogradArgs._fields)};\n}};\n"
    head = [prelude(isa), constants, fields, HELPERS, _products(product_rows(isa)), _STRUCTS]
    return "\n".join([*head, *(_form(m) for m in SYMBOLS)])


def _products(rows: int) -> str:
    """``product_of[tiles - 1][blocks - 1]`` for up to ``rows`` tiles and one or two blocks of outputs."""
    names = [[f"product_{r}x{b}" for b in (1, 2)] for r in range(1, rows + 1)]
    table = ",\n".join(f"    {{{', '.join(row)}}}" for row in names)
    functions = [_product(r, b) for r in range(1, rows + 1) for b in (1, 2)]
    return f"""\
/* y[tile][lane] = sum of v[tile][channel] * u[channel][lane] over k channels, for each block of lanes. */
struct product {{
    int64_t k, v_cb, y_cb; /* _cb: from one block of channels to the next */
    int64_t ahead_step;    /* from one line that a later product reads, fetched to L2, to the next one */
}};

{"".join(functions)}
typedef void (*product_fn)(const struct product *p, const float *v, const float *u, float *y,
                           const float *ahead);
static const product_fn product_of[ROWS][2] = {{
{table},
}};
"""


def _product(rows: int, blocks: int) -> str:
    cells = [(r, b) for r in range(rows) for b in range(blocks)]
    turn = [f"{line}" for i in range(_UNROLL) for line in _product_step(rows, blocks, i)]
    fetch = ["            __builtin_prefetch(ahead, 0, 2);", "            ahead += p->ahead_step;"] * _FETCHES
    lines = [
        f"static void product_{rows}x{blocks}(const struct product *p, const float *v, const float *u,",
        "        float *y, const float *ahead) {",
        f"    vf {', '.join(f'y{r}_{b} = {{0}}' for r, b in cells)};",
        "    for (int64_t k = p->k; k > 0; k -= VL, v += p->v_cb - VL) {",
        "        int64_t i = smaller(k, VL);",
        f"        for (; i >= {_UNROLL}; i -= {_UNROLL}, v += {_UNROLL}, u += {_UNROLL * blocks} * VL) {{",
        *fetch,
        *turn,
        "        }",
        f"        for (; i > 0; i--, v++, u += {blocks} * VL) {{",
        *_product_step(rows, blocks, 0),
        "        }",
        "    }",
        *(f"    vf_store(y + {r} * VL{' + p->y_cb' if b else ''}, y{r}_{b});" for r, b in cells),
    ]
    return "\n".join([*lines, "}", "", ""])


def _product_step(rows: int, blocks: int, i: int) -> list[str]:
    """The products of the channel that is ``i`` ahead."""
    lines = [f"            const vf u{b}_{i} = vf_load(u + {i * blocks + b} * VL);" for b in range(blocks)]
    for r in range(rows):
        lines += [f"            const vf v{r}_{i} = vf_set1(v[{r} * VL + {i}]);"]
        lines += [f"            y{r}_{b} = vf_fma(v{r}_{i}, u{b}_{i}, y{r}_{b});" for b in range(blocks)]
    return lines


def _form(m: int) -> str:
    """The kernel for tiles of m x m."""
    n = m + 2
    texts = {
        "M": str(m),
        "N": str(n),
        "SYMBOL": SYMBOLS[m],
        "INPUT": _FORMS[m].input.strip("\n"),
        "OUTPUT": _FORMS[m].output.strip("\n"),
        "ROWS_OF_IMAGE": _vectors(f"from + {i} * from_h" for i in range(n)),
        "ROW_OF_TILE": _vectors(f"from + {j} * N * VL" for j in range(n)),
        "COLUMNS": "\n".join(_column_of_products(m, j) for j in range(n)),
        "ROWS_OF_PIXELS": "\n".join(_row_of_pixels(m, i) for i in range(m)),
    }
    text = _BODY
    for name, value in texts.items():
        text = text.replace(f"@{name}@", value)
    return text


def _vectors(places: Iterable[str]) -> str:
    """An array of the vectors at ``places``."""
    return f"(vf[]){{{', '.join(f'vf_load({place})' for place in places)}}}"


def _column_of_products(m: int, j: int) -> str:
    places = _vectors(f"from + {i * (m + 2) + j} * plane" for i in range(m + 2))
    return f"    output{m}({places}, t + {j});"


def _row_of_pixels(m: int, i: int) -> str:
    n = m + 2
    lines = [f"    output{m}(t + {i * n}, o);"]
    for j in range(m):
        add = f"residual ? residual + {j} * VL : NULL"
        lines += [f"    store(g, act, to + {j} * VL, o[{j} * N] + bias, {add});"]
    return "\n".join([*lines, "    to += to_h;", "    residual += residual ? g->s.r_h : 0;"])


@dataclass(frozen=True)
class _Form:
    """C text of the transforms of one line, from ``d`` to ``to``."""

    input: str
    output: str


_FORMS: Final = {
    4: _Form(
        input="""
    const vf a = vf_set1(0.70710678118654752f), b = vf_set1(1.41421356237309505f);
    const vf p = d[4] - 2.0f * d[2], q = d[3] - 2.0f * d[1], r = d[4] - 0.5f * d[2], s = d[3] - 0.5f * d[1];
    vf_store(to, d[4] - 2.5f * d[2] + d[0]);
    vf_store(to + step, p + a * q);
    vf_store(to + 2 * step, p - a * q);
    vf_store(to + 3 * step, r + b * s);
    vf_store(to + 4 * step, r - b * s);
    vf_store(to + 5 * step, d[5] - 2.5f * d[3] + d[1]);
""",
        output="""
    const vf a = vf_set1(0.70710678118654752f), b = vf_set1(1.41421356237309505f);
    const vf p = d[1] + d[2], q = a * (d[1] - d[2]), r = d[3] + d[4], s = b * (d[3] - d[4]);
    to[0] = d[0] + p + r;
    to[N] = q + s;
    to[2 * N] = 0.5f * p + 2.0f * r;
    to[3 * N] = 0.5f * q + (2.0f * s + d[5]);
""",
    ),
    2: _Form(
        input="""
    vf_store(to, d[2] - d[0]);
    vf_store(to + step, d[1] + d[2]);
    vf_store(to + 2 * step, d[2] - d[1]);
    vf_store(to + 3 * step, d[3] - d[1]);
""",
        output="""
    const vf p = d[1] + d[2], q = d[1] - d[2];
    to[0] = d[0] + p;
    to[N] = q + d[3];
""",
    ),
}  # fmt: skip

_STRUCTS: Final = """
struct conv {
    struct args s;
    const float *x, *w, *bias, *residual;
    float *y;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    float lo, hi;
    int64_t in_blocks, out_blocks; /* of channels */
    int64_t row_tiles, tiles;      /* of an image */
    int64_t in_plane, out_plane;   /* elements from one plane of scratch to the next */
};

/* Tiles [tile, tile + tiles) of an image, output channel blocks [first, last). */
struct unit {
    int64_t image, tile, tiles, first, last;
};

/* Tiles of one row of tiles: count of them from the tile at (row, column), number at in the unit. */
struct run {
    int64_t row, column, count, at;
};

GW_INLINE struct run run_at(const struct conv *g, const struct unit *o, int64_t at, int64_t longest) {
    const int64_t row = quotient(o->tile + at, g->row_tiles), column = o->tile + at - row * g->row_tiles;
    const int64_t count = smaller(smaller(g->row_tiles - column, o->tiles - at), longest);
    return (struct run){row, column, count, at};
}

GW_INLINE int64_t plane_size(int64_t blocks, int64_t tiles) {
    return (blocks * tiles * VL / 32 * 2 + 3) * 16; /* an odd number of cache lines */
}

GW_INLINE void store(const struct conv *g, int64_t act, float *to, vf y, const float *residual) {
    if (residual)
        y += vf_load(residual);
    if (act == 1)
        y = vf_relu(y);
    else if (act == 2)
        y = vf_min(vf_max(y, vf_set1(g->lo)), vf_set1(g->hi));
    vf_store(to, y);
}

/* y[unit's tiles of a plane] = sum over the input channels, for all planes. */
static void multiply(const struct conv *g, const struct unit *o, int64_t planes, const float *in,
                     float *out) {
    const int64_t k = g->s.cin, panel = k * VL, groups = parts(o->tiles, ROWS);
    const struct product p = {k, o->tiles * VL, o->tiles * VL, 2 * TURN * VL / groups};
    for (int64_t plane = 0; plane < planes; plane++, in += g->in_plane, out += g->out_plane) {
        const float *w = g->w + (plane * g->out_blocks + o->first) * panel;
        float *y = out;
        for (int64_t b = o->first; b < o->last; b += 2, w += 2 * panel, y += 2 * o->tiles * VL) {
            const int64_t blocks = smaller(2, o->last - b);
            const float *ahead = b + 2 < o->last ? w + 2 * panel : w + (g->out_blocks - b + o->first) * panel;
            for (int64_t i = 0; i < groups; i++, ahead += k / TURN * p.ahead_step) {
                const int64_t tile = cut(o->tiles, i, groups), rows = cut(o->tiles, i + 1, groups) - tile;
                product_of[rows - 1][blocks - 1](&p, in + tile * VL, w, y + tile * VL, ahead);
            }
        }
    }
}
"""

_BODY: Final = """
#define M @M@
#define N @N@ /* points of a line: M + 2 */
#define COLUMNS (RUN * M + 2)

GW_INLINE void input@M@(const vf *d, float *to, int64_t step) {
@INPUT@
}

GW_INLINE void output@M@(const vf *d, vf *to) {
@OUTPUT@
}

/* The vertical transforms of the columns of a run, [column][N][VL]; zeros outside the image. */
static void input_columns@M@(const struct conv *g, const float *x, int64_t y0, int64_t x0, int64_t columns,
                             float *to) {
    const int64_t from_h = g->s.x_h, top = y0 < 0 ? -y0 : 0, bottom = smaller(N, g->s.h - y0);
    const int64_t first = x0 < 0 ? smaller(-x0, columns) : 0;
    const int64_t inside = smaller(columns, g->s.w - x0);
    const int64_t last = top < bottom && inside > first ? inside : first;
    memset(to, 0, (size_t)(first * N * VL) * sizeof *to);
    memset(to + last * N * VL, 0, (size_t)((columns - last) * N * VL) * sizeof *to);
    if (first == last)
        return;
    const float *from = x + (y0 + top) * from_h + (x0 + first) * VL;
    to += first * N * VL;
    if (top == 0 && bottom == N) {
        for (int64_t c = first; c < last; c++, from += VL, to += N * VL)
            input@M@(@ROWS_OF_IMAGE@, to, VL);
        return;
    }
    for (int64_t c = first; c < last; c++, from += VL, to += N * VL) {
        vf d[N] = {{0}};
        for (int64_t i = top; i < bottom; i++)
            d[i] = vf_load(from + (i - top) * from_h);
        input@M@(d, to, VL);
    }
}

/* The planes [N * N][input channel block][tile][VL] of the unit's tiles. */
static void transform_input@M@(const struct conv *g, const struct unit *o, float *to) {
    float columns[COLUMNS * N * VL] __attribute__((aligned(64)));
    const float *image = g->x + o->image * g->s.x_n;
    for (int64_t at = 0; at < o->tiles;) {
        const struct run r = run_at(g, o, at, RUN);
        for (int64_t b = 0; b < g->in_blocks; b++) {
            input_columns@M@(g, image + b * g->s.x_cb, r.row * M - g->s.pad_top, r.column * M - g->s.pad_left,
                             r.count * M + 2, columns);
            for (int64_t t = 0; t < r.count; t++) {
                float *tile = to + (b * o->tiles + at + t) * VL;
                for (int64_t i = 0; i < N; i++) {
                    const float *from = columns + (t * M * N + i) * VL;
                    input@M@(@ROW_OF_TILE@, tile + i * N * g->in_plane, g->in_plane);
                }
            }
        }
        at += r.count;
    }
}

/* One tile of pixels, whole, from its products in all planes. */
static void output_tile@M@(const struct conv *g, const float *from, vf bias, const float *residual,
                           int64_t act, float *to, int64_t to_h) {
    const int64_t plane = g->out_plane;
    vf t[M * N], o[M * N];
@COLUMNS@
@ROWS_OF_PIXELS@
}

/* The pixels of a tile that the image has: height x width of M x M. */
static void output_part@M@(const struct conv *g, const float *from, vf bias, const float *residual, float *to,
                           int64_t to_h, int64_t height, int64_t width) {
    float tile[M * M * VL] __attribute__((aligned(64)));
    output_tile@M@(g, from, bias, NULL, 0, tile, M * VL); /* act comes after the residual */
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            store(g, g->s.act, to + y * to_h + x * VL, vf_load(tile + (y * M + x) * VL),
                  residual ? residual + y * g->s.r_h + x * VL : NULL);
}

/* The pixels of a run of tiles of one block of channels, in the output or through the hook. */
static int32_t output_run@M@(const struct conv *g, const struct unit *o, const struct run *r, int64_t block,
                             const float *from) {
    const struct args *s = &g->s;
    const int64_t y0 = r->row * M, x0 = r->column * M;
    const int64_t height = smaller(M, s->oh - y0), width = smaller(r->count * M, s->ow - x0);
    float pixels[M * RUN * M * VL] __attribute__((aligned(64)));
    const int64_t to_h = g->hook ? width * VL : s->y_h;
    float *to = g->hook ? pixels : g->y + o->image * s->y_n + block * s->y_cb + y0 * s->y_h + x0 * VL;
    const float *residual = g->residual;
    if (residual)
        residual += o->image * s->r_n + block * s->r_cb + y0 * s->r_h + x0 * VL;
    const vf bias = g->bias ? vf_load(g->bias + block * VL) : (vf){0};
    for (int64_t x = 0; x < width; x += M, from += VL) {
        const float *add = residual ? residual + x * VL : NULL;
        if (height == M && width - x >= M)
            output_tile@M@(g, from, bias, add, s->act, to + x * VL, to_h);
        else
            output_part@M@(g, from, bias, add, to + x * VL, to_h, height, smaller(M, width - x));
    }
    if (!g->hook)
        return 0;
    /* rows of pixels follow each other where the run covers the image */
    const int64_t lines = width == s->ow ? height : 1, batch = o->image * g->out_blocks + block;
    for (int64_t y = 0; y < height; y += lines) {
        const int32_t error = g->hook(g->hook_buf, g->hook_arg, pixels + y * to_h, VL, batch,
                                      (y0 + y) * s->ow + x0, lines * width, 0, VL);
        if (error)
            return error;
    }
    return 0;
}

static int32_t transform_output@M@(const struct conv *g, const struct unit *o, const float *from) {
    for (int64_t at = 0; at < o->tiles;) {
        const struct run r = run_at(g, o, at, RUN);
        for (int64_t b = o->first; b < o->last; b++) {
            const float *products = from + ((b - o->first) * o->tiles + at) * VL;
            const int32_t error = output_run@M@(g, o, &r, b, products);
            if (error)
                return error;
        }
        at += r.count;
    }
    return 0;
}

GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct conv g = {
        .x = buf[0],
        .w = buf[1],
        .bias = buf[2],
        .residual = buf[3],
        .y = buf[4],
        .hook_buf = buf + OPERANDS + 1,
        .hook_arg = arg + ARGS,
    };
    struct args *s = &g.s;
    memcpy(s, arg, sizeof *s);
    memcpy(&g.hook, &buf[OPERANDS], sizeof g.hook);
    memcpy(&g.lo, &s->lo, sizeof g.lo);
    memcpy(&g.hi, &s->hi, sizeof g.hi);
    g.in_blocks = parts(s->cin, VL);
    g.out_blocks = parts(s->cout, VL);
    g.row_tiles = parts(s->ow, M);
    g.tiles = g.row_tiles * parts(s->oh, M);
    g.in_plane = plane_size(g.in_blocks, s->block_tiles);
    g.out_plane = plane_size(s->unit_blocks, s->block_tiles);
    const int64_t blocks = parts(g.tiles, s->block_tiles), units = parts(g.out_blocks, s->unit_blocks);
    float *in = scratch, *out = in + N * N * g.in_plane;
    int64_t transformed = -1;
    for (; begin < end; begin++) {
        const int64_t outer = begin / units, block = outer % blocks, first = begin % units * s->unit_blocks;
        const int64_t tile = cut(g.tiles, block, blocks);
        const struct unit o = {
            .image = outer / blocks,
            .tile = tile,
            .tiles = cut(g.tiles, block + 1, blocks) - tile,
            .first = first,
            .last = smaller(g.out_blocks, first + s->unit_blocks),
        };
        if (outer != transformed)
            transform_input@M@(&g, &o, in);
        transformed = outer;
        multiply(&g, &o, N * N, in, out);
        const int32_t error = transform_output@M@(&g, &o, out);
        if (error)
            return error;
    }
    return 0;
}
#undef M
#undef N
#undef COLUMNS
"""

"""What LSTM and GRU kernels share: packed weights, products with them, activations, rows in time.

Weights [directions, gates * hidden, K] are packed in panels of ``PANEL`` rows, [directions, panels, K,
PANEL], so that the lanes of a vector run over output units. A unit of the grid is one direction and up to
``ROWS`` batch rows for the whole sequence: the recurrent weights are streamed once per step for all its
rows, forwards and backwards in turns, so that those read last are still near. The input's part of the gates
does not wait for the recurrence; it is computed for ``POINTS`` rows of as many steps as these make.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from graphwright.ir.symbols import Dim, ceildiv, minimum
from graphwright.ir.types import Layout
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.library.extent import (
    BITS,
    SIGNED,
    UNITS,
    Axis,
    Extent,
    Reach,
    arguments,
    dense,
    within,
)
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.vmath import vmath

PANEL: Final = 64
ROWS: Final = 12
POINTS: Final = 24
AHEAD: Final = 8
"""Rows of weights that products with several rows of x fetch ahead: they have the time."""
WEIGHTS_LAYOUT: Final = Layout((0, 1, 2), ((1, PANEL),), zero_padded=True)
"""Of W [directions, gates * hidden, input] and R [directions, gates * hidden, hidden]."""


class ActivationKind(IntEnum):
    """ONNX's names of gate activations, but for Softplus."""

    SIGMOID = 0
    TANH = 1
    RELU = 2
    HARD_SIGMOID = 3
    AFFINE = 4
    LEAKY_RELU = 5
    THRESHOLDED_RELU = 6
    SCALED_TANH = 7
    ELU = 8
    SOFTSIGN = 9


@dataclass(frozen=True)
class Activation:
    """``alpha`` and ``beta`` as ONNX defines them for the kind; the caller fills in their defaults."""

    kind: ActivationKind
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def words(self) -> tuple[int, int, int]:
        return int(self.kind), double_bits(self.alpha), double_bits(self.beta)


SIGMOID: Final = Activation(ActivationKind.SIGMOID)
TANH: Final = Activation(ActivationKind.TANH)


def grid(directions: int, batch: Dim) -> Dim:
    """Blocks of up to ``ROWS`` batch rows in each direction."""
    return ceildiv(batch, ROWS) * directions


def scratch_bytes(gates: int, hidden: Dim) -> Dim:
    """Gates of ``POINTS`` rows and (a GRU's twice) of one step, states, biases and peepholes, each with
    room for whole vectors."""
    columns = ceildiv(hidden * gates, PANEL) * PANEL
    return 4 * (columns * (POINTS + 2 * ROWS) + (hidden + PANEL) * (3 * ROWS + 2 * gates + 3) + PANEL)


def work_ns(gates: int, directions: int, sequence: Dim, batch: Dim, inputs: Dim, hidden: Dim) -> Dim:
    """Bound by reading the weights from L2 (about 40 bytes a ns), once for the rows of a unit."""
    return sequence * grid(directions, batch) * (hidden * gates * (inputs + hidden) // 10 + hidden + 100)


def extent(
    symbol: str, gates: int, flags: tuple[str, ...], activations: int, states: tuple[str, ...]
) -> Extent:
    """How far a kernel reaches whose arguments are sizes, ``flags``, a clip, strides, and ``activations`` for
    each of two directions.

    ``states``: the h (and c) of its operands x, w, r, b, lengths, initial states, peepholes (of an LSTM), y,
    last states.
    """
    starts, ends = ([f"{state}{end}" for state in states] for end in ("0", "n"))
    of_states = (f"{state}_{axis}" for state in (*starts, *ends) for axis in ("direction", "row"))
    strides = ("x_time", "x_row", "y_time", "y_direction", "y_row", *of_states)
    words = tuple(f"{word}{k}" for k in range(2 * activations) for word in ("kind", "alpha", "beta"))
    names = ("sequence", "batch", "inputs", "hidden", *flags, "clip", *strides, *words)
    a = arguments(*names)
    directions = ceildiv(UNITS, ceildiv(a.batch, ROWS))
    rows = directions * ceildiv(a.hidden * gates, PANEL) * PANEL

    def state(name: str) -> Reach:
        axes: tuple[Axis, ...] = (
            (directions, getattr(a, f"{name}_direction")),
            (a.batch, getattr(a, f"{name}_row")),
        )
        return Reach(4, (*axes, (a.hidden, 1)), optional=True)

    return Extent(
        symbol,
        names,
        (
            Reach(4, ((a.sequence, a.x_time), (a.batch, a.x_row), (a.inputs, 1))),
            *(dense(4, rows, depth) for depth in (a.inputs, a.hidden)),
            dense(4, directions, a.hidden * (2 * gates), optional=True),
            dense(4, a.batch, optional=True),
            *map(state, starts),
            *([dense(4, directions, a.hidden * 3, optional=True)] if len(states) > 1 else []),
            replace(state("y"), axes=((a.sequence, a.y_time), *state("y").axes)),
            *map(state, ends),
        ),
        grid=minimum(UNITS, 2 * ceildiv(a.batch, ROWS)),
        scratch=scratch_bytes(gates, a.hidden),
        bounds=within(SIGNED, *strides) | within(BITS, "clip", *words),
    )


def c_text(isa: Isa) -> str:
    """Everything above, as C; stands after the prelude."""
    constants = f"enum {{ PANEL = {PANEL}, ROWS = {ROWS}, POINTS = {POINTS}, AHEAD = {AHEAD} }};"
    vectors, most, whole = PANEL // isa.lanes, *((12, 6) if isa.vector_bytes == 64 else (3, 1))
    products = [_product(rows, vectors, rows <= whole, isa.lanes) for rows in range(1, most + 1)]
    table = ", ".join(f"product_{rows}" for rows in range(1, most + 1))
    project = _PROJECT.replace("@MOST@", str(most)).replace("@TABLE@", table)
    activations = _ACTIVATIONS.replace("@VL@", str(isa.lanes))
    math = vmath(isa, ("sigmoid", "tanh"))
    return "\n".join([constants, math, activations, *products, project, _TIME])


def _product(rows: int, vectors: int, at_once: bool, lanes: int) -> str:
    """``rows`` x one panel; in two halves where the registers do not hold all sums."""
    width = vectors if at_once else vectors // 2
    lines = [
        f"static void product_{rows}(int64_t depth, const float *const *x, const float *w, float *out, "
        "int64_t ld) {",
        f"    for (int half = 0; half < {vectors // width}; half++) {{",
        f"        vf {', '.join(f's{r}_{v} = {{0}}' for r in range(rows) for v in range(width))};",
        "        for (int64_t k = 0; k < depth; k++) {",
        *(f"            vf w{v} = vf_load(w + k * PANEL + {v} * VL);" for v in range(width)),
    ]
    ahead = range(0, width * lanes, 16) if rows > 1 else ()
    lines += [f"            __builtin_prefetch(w + (k + AHEAD) * PANEL + {at});" for at in ahead]
    for r in range(rows):
        lines.append(f"            vf x{r} = vf_set1(x[{r}][k]);")
        lines += [f"            s{r}_{v} = vf_fma(x{r}, w{v}, s{r}_{v});" for v in range(width)]
    lines.append("        }")
    lines += [
        f"        vf_store(out + {r} * ld + {v} * VL, s{r}_{v});" for r in range(rows) for v in range(width)
    ]
    lines += [f"        w += {width} * VL;", f"        out += {width} * VL;"]
    return "\n".join([*lines, "    }", "}"])


_ACTIVATIONS: Final = """
GW_INLINE vf vf_absolute(vf x) { return (vf)((vi)x & vi_set1(INT32_MAX)); }

enum { SIGMOID, TANH, RELU, HARD_SIGMOID, AFFINE, LEAKY_RELU, THRESHOLDED_RELU, SCALED_TANH, ELU, SOFTSIGN };
typedef struct {
    int64_t kind;
    double alpha, beta;
} activation;

GW_INLINE vf activate(const activation *f, vf x) {
    if (f->kind == SIGMOID) return sigmoid_f32x@VL@(x);
    if (f->kind == TANH) return tanh_f32x@VL@(x);
    vf zero = {0}, one = vf_set1(1.0f), alpha = vf_set1((float)f->alpha), beta = vf_set1((float)f->beta);
    switch (f->kind) {
    case RELU: return vf_relu(x);
    case HARD_SIGMOID: return vf_min(vf_max(vf_fma(alpha, x, beta), zero), one);
    case AFFINE: return vf_fma(alpha, x, beta);
    case LEAKY_RELU: return vf_select(x < zero, alpha * x, x);
    case THRESHOLDED_RELU: return vf_select(x <= alpha, zero, x);
    case SCALED_TANH: return alpha * tanh_f32x@VL@(beta * x);
    case ELU: { /* e^x - 1 without cancellation */
        vf t = tanh_f32x@VL@(0.5f * x);
        return vf_select(x < zero, alpha * (2.0f * t) / (1.0f - t), x);
    }
    default: return x / (1.0f + vf_absolute(x));
    }
}

GW_INLINE vf clamp(vf x, float bound) { return vf_min(vf_max(x, vf_set1(-bound)), vf_set1(bound)); }
"""

_PROJECT: Final = """
typedef void product(int64_t depth, const float *const *x, const float *w, float *out, int64_t ld);
static product *const PRODUCT[] = {@TABLE@};

/* out[r][columns of panels first to last] = x[r] @ w. Panel by panel, so that each serves all rows from
   cache; from the last one on if backwards. */
static void project(int64_t rows, int64_t depth, const float *const *x, const float *w, int64_t first,
                    int64_t last, int backwards, float *out, int64_t ld) {
    for (int64_t i = first; i < last; i++) {
        int64_t p = backwards ? first + last - 1 - i : i;
        for (int64_t r = 0; r < rows; r += @MOST@) {
            int64_t some = rows - r < @MOST@ ? rows - r : @MOST@;
            PRODUCT[some - 1](depth, x + r, w + p * depth * PANEL, out + r * ld + p * PANEL, ld);
        }
    }
}
"""

_TIME: Final = """
/* The rows of one unit of the grid and where they stand in time. Sizes padded to PANEL leave room for
   vectors. */
typedef struct {
    int64_t sequence, direction, row0, rows, steps, reverse, longest, length[ROWS];
} unit;

static unit unit_of(int64_t index, int64_t sequence, int64_t batch, int64_t reverse, const int32_t *lengths) {
    int64_t blocks = (batch + ROWS - 1) / ROWS, block = index % blocks;
    unit u = {.sequence = sequence, .direction = index / blocks, .row0 = batch * block / blocks};
    u.rows = batch * (block + 1) / blocks - u.row0; /* as even as can be */
    u.steps = POINTS / u.rows;
    u.reverse = reverse || u.direction == 1;
    for (int64_t r = 0; r < u.rows; r++) {
        int64_t n = lengths ? lengths[u.row0 + r] : sequence;
        n = n < 0 ? 0 : n < sequence ? n : sequence;
        u.length[r] = n;
        u.longest = n > u.longest ? n : u.longest;
    }
    return u;
}

/* The time that row r sees at its step; a row that has ended stands at 0, unused. */
static int64_t time_of(const unit *u, int64_t r, int64_t step) {
    if (step >= u->length[r]) return 0;
    return u->reverse ? u->length[r] - 1 - step : step;
}

/* gates[(step - first) * rows + r] = x[time, row0 + r] @ w for steps [first, first + steps). */
static void project_inputs(const unit *u, int64_t first, const float *x, int64_t x_time, int64_t x_row,
                           int64_t depth, const float *w, int64_t panels, float *gates) {
    const float *rows[POINTS];
    int64_t count = 0;
    for (int64_t step = first; step < first + u->steps && step < u->longest; step++)
        for (int64_t r = 0; r < u->rows; r++)
            rows[count++] = x + time_of(u, r, step) * x_time + (u->row0 + r) * x_row;
    project(count, depth, rows, w, 0, panels, 0, gates, panels * PANEL);
}

/* n zeros where there is nothing to copy. */
static void copy_row(float *to, const float *from, int64_t n) {
    if (from)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        memset(to, 0, (size_t)n * sizeof *to);
}

/* Y is zero where a row has ended. */
static void clear_ended(const unit *u, float *y, int64_t y_time, int64_t y_row, int64_t hidden) {
    for (int64_t r = 0; y && r < u->rows; r++)
        for (int64_t t = u->length[r]; t < u->sequence; t++)
            memset(y + t * y_time + r * y_row, 0, (size_t)hidden * sizeof *y);
}
"""

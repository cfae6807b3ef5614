"""Shared by the LSTM, GRU and RNN kernels: packed weights, products with them, activations, and rows in time.

Weights [directions, gates * hidden, K] are packed in panels of ``PANEL`` rows, [directions, panels, K,
PANEL], so that the lanes of a vector are output units. A unit of the grid is one direction and up to ``ROWS``
batch rows for the whole sequence. The recurrent weights are streamed once per step for all its rows,
alternately forwards and backwards, so that those read last are still in the cache. The input part of the
gates does not depend on the recurrence: it is computed for several steps at a time, ``POINTS`` rows in total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, minimum
from graphwright.ir.types import Layout
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.library.extent import (
    BITS,
    GRID,
    SIGNED,
    Axis,
    Extent,
    Reach,
    arguments,
    dense,
    within,
)
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.vmath import vmath

PANEL: Final = 64
ROWS: Final = 6
"""The most batch rows per unit: each of 4 to 6 rows takes as long as each of 12, and
more threads have work.
"""
POINTS: Final = 24
AHEAD: Final = 8
"""The prefetch distance of products with several rows of x, in rows of weights."""
WEIGHTS_LAYOUT: Final = Layout((0, 1, 2), ((1, PANEL),), zero_padded=True)
"""For W [directions, gates * hidden, input] and R [directions, gates * hidden, hidden]."""


class ActivationKind(IntEnum):
    """The gate activations of ONNX, except Softplus."""

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
    """``alpha`` and ``beta`` are as ONNX defines them for the kind; the caller inserts their defaults."""

    kind: ActivationKind
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def words(self) -> tuple[int, int, int]:
        """The kernel arguments: the kind, and the bits of ``alpha`` and ``beta``."""
        return int(self.kind), double_bits(self.alpha), double_bits(self.beta)


SIGMOID: Final = Activation(ActivationKind.SIGMOID)
TANH: Final = Activation(ActivationKind.TANH)


Pair = tuple[Dim, Dim]


@dataclass(frozen=True)
class Cell:
    """A kind of layer: its gates, flags, activations per direction, and states (``h``, and ``c`` for LSTM).

    Operands: x [sequence, batch, inputs]; w and r, packed as :data:`WEIGHTS_LAYOUT`; b [directions, 2 * gates
    * hidden], dense; sequence_lens, int32, dense; the initial states [directions, batch, hidden]; for an LSTM
    p [directions, 3 * hidden], dense; y [sequence, directions, batch, hidden]; the last states. All except x,
    w and r may be absent. The innermost axis of each is contiguous.
    """

    name: str
    gates: int
    flags: tuple[str, ...]
    activations: int
    states: tuple[str, ...]

    @cached_property
    def strides(self) -> tuple[str, ...]:
        """The names of the strides, in elements, of x, y, the initial and the last states."""
        states = (f"{state}{end}" for end in "0n" for state in self.states)
        of_states = (f"{state}_{axis}" for state in states for axis in ("direction", "row"))
        return ("x_time", "x_row", "y_time", "y_direction", "y_row", *of_states)

    @cached_property
    def abi(self) -> Abi:
        """The operands and arguments of the kernel."""
        starts, ends = ([f"{when}_{state}" for state in self.states] for when in ("initial", "y"))
        peepholes = ["p"] if "c" in self.states else []
        sizes = ("sequence", "batch", "inputs", "hidden")
        functions = "activation f[2]" + f"[{self.activations}]" * (self.activations > 1)
        return Abi(
            self.name,
            ("x", "w", "r", "b", "sequence_lens", *starts, *peepholes, "y", *ends),
            (*sizes, *self.flags, "double clip", *self.strides, functions),
            {"activation": ("kind", "double alpha", "double beta")},
        )

    def scratch_bytes(self, hidden: Dim) -> Dim:
        """The bytes of the gates of ``POINTS`` rows and of one step (for a GRU twice), of states, biases and
        peepholes, all padded to whole vectors.
        """
        columns = ceildiv(hidden * self.gates, PANEL) * PANEL
        padded = (hidden + PANEL) * (3 * ROWS + 2 * self.gates + 3) + PANEL
        return 4 * (columns * (POINTS + 2 * ROWS) + padded)

    def extent(self, symbol: str) -> Extent:
        """The memory that the kernel accesses."""
        a = arguments(*self.abi.args)
        directions = ceildiv(GRID, ceildiv(a.batch, ROWS))
        rows = directions * ceildiv(a.hidden * self.gates, PANEL) * PANEL

        def state(name: str) -> Reach:
            axes: tuple[Axis, ...] = (
                (directions, getattr(a, f"{name}_direction")),
                (a.batch, getattr(a, f"{name}_row")),
            )
            return Reach(4, (*axes, (a.hidden, 1)), optional=True)

        peepholes = {"p": dense(4, directions, a.hidden * 3, optional=True)} if "c" in self.states else {}
        reaches = self.abi.ordered(
            x=Reach(4, ((a.sequence, a.x_time), (a.batch, a.x_row), (a.inputs, 1))),
            w=dense(4, rows, a.inputs),
            r=dense(4, rows, a.hidden),
            b=dense(4, directions, a.hidden * (2 * self.gates), optional=True),
            sequence_lens=dense(4, a.batch, optional=True),
            y=replace(state("y"), axes=((a.sequence, a.y_time), *state("y").axes)),
            **{f"initial_{name}": state(f"{name}0") for name in self.states},
            **{f"y_{name}": state(f"{name}n") for name in self.states},
            **peepholes,
        )
        words = (f"{word}{k}" for k in range(2 * self.activations) for word in ("kind", "alpha", "beta"))
        return Extent(
            symbol,
            self.abi.args,
            reaches,
            grid=minimum(GRID, 2 * ceildiv(a.batch, ROWS)),
            scratch=self.scratch_bytes(a.hidden),
            bounds=within(SIGNED, *self.strides) | within(BITS, "clip", *words),
        )


@dataclass(frozen=True)
class Recurrent(KernelCall):
    """Sizes and strides (in elements) of one call. Subclasses add strides of their states, flags and
    activations, with the names in :meth:`Cell.abi`.
    """

    CELL: ClassVar[Cell]

    sequence: Dim
    batch: Dim
    inputs: Dim
    hidden: Dim
    directions: int
    x_strides: Pair
    """The strides of sequence and batch."""
    y_strides: tuple[Dim, Dim, Dim]
    """The strides of sequence, direction and batch."""

    def arguments(
        self, states: Sequence[Pair], flags: Mapping[str, bool], clip: float, functions: Sequence[Activation]
    ) -> tuple[Dim, ...]:
        """The arguments; ``states``: the strides of the initial, then of the last states."""
        strides = (*self.x_strides, *self.y_strides, *(stride for pair in states for stride in pair))
        return self.CELL.abi.values(
            sequence=self.sequence,
            batch=self.batch,
            inputs=self.inputs,
            hidden=self.hidden,
            clip=double_bits(clip),
            f=tuple(word for function in functions for word in function.words),
            **{name: int(flag) for name, flag in flags.items()},
            **dict(zip(self.CELL.strides, strides, strict=True)),
        )

    @property
    def grid(self) -> Dim:
        """The number of units: blocks of up to ``ROWS`` batch rows in each direction."""
        return ceildiv(self.batch, ROWS) * self.directions

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The scratch bytes per thread."""
        return self.CELL.scratch_bytes(self.hidden)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: each step reads the weights again, from the cache
        level that holds them.
        """
        weights = self.hidden * self.CELL.gates * (self.inputs + self.hidden)
        cycles = self.batch * self.hidden + 400
        step = Work(fmas=self.batch * weights, efficiency=90, cycles=cycles, moved=4 * weights)
        return self.directions * self.sequence * predict(step, isa.machine)


def c_text(isa: Isa) -> str:
    """The C code that ``rnn.h`` includes."""
    vectors, most, whole = PANEL // isa.lanes, *((12, 6) if isa.vector_bytes == 64 else (3, 1))
    constants = f"PANEL = {PANEL}, ROWS = {ROWS}, POINTS = {POINTS}, AHEAD = {AHEAD}, MOST = {most}"
    kinds = ", ".join(f"{kind.name} = {kind.value}" for kind in ActivationKind)
    products = [_product(rows, vectors, rows <= whole, isa.lanes) for rows in range(1, most + 1)]
    table = ", ".join(f"product_{rows}" for rows in range(1, most + 1))
    enums = f"enum {{ {constants} }};\nenum {{ {kinds} }};"
    return "\n".join([enums, vmath(isa, ("sigmoid", "tanh")), *products, _TABLE.replace("PRODUCTS", table)])


_TABLE: Final = """
typedef void product(int64_t depth, const float *const *x, const float *w, float *out, int64_t ld);
static product *const PRODUCT[] = {PRODUCTS};
"""


def _product(rows: int, vectors: int, at_once: bool, lanes: int) -> str:
    """``rows`` x one panel; in two halves if the registers do not hold all accumulators."""
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

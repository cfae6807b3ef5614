"""LSTM and GRU: one launch for the whole sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphwright.ir.graph import Node
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.packing import packed
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.recurrent import gru, lstm, rnn
from graphwright.kernels.recurrent.rnn import WEIGHTS_LAYOUT, Activation, ActivationKind
from graphwright.kernels.ref import KernelRef
from graphwright.ops.nn.gru import GRU
from graphwright.ops.nn.lstm import LSTM
from graphwright.ops.nn.recurrent import ACTIVATIONS, Recurrent
from graphwright.records import dataclass

_KINDS = {kind.name.replace("_", "").lower(): kind for kind in ActivationKind}


@candidate(LSTM)
def long_short_term_memory(node: Node[LSTM], context: Context) -> Run | str:
    """One launch for the whole sequence, in f32."""
    op = node.op
    refusal = refusal_of(node, op)
    if refusal is not None:
        return refusal
    sizes = sizes_of(node, op)
    inputs, hidden, directions, state = node.operand(0).type.dims[2], op.hidden, op.directions, sizes.state
    kernel = lstm.Lstm(
        sizes.sequence, sizes.batch, inputs, hidden, directions, x_strides=sizes.x, y_strides=sizes.y,
        initial_h_strides=state, initial_c_strides=state, y_h_strides=state, y_c_strides=state,
        reverse=op.direction == "reverse", input_forget=op.coupled,
        clip=clip_of(op), activations=activations_of(op),
    )  # fmt: skip
    return launched(lstm.SYMBOL, kernel, kernel.args, node, context)


@candidate(GRU)
def gated_recurrent_unit(node: Node[GRU], context: Context) -> Run | str:
    """One launch for the whole sequence, in f32."""
    op = node.op
    refusal = refusal_of(node, op)
    if refusal is not None:
        return refusal
    sizes = sizes_of(node, op)
    inputs, hidden, directions, state = node.operand(0).type.dims[2], op.hidden, op.directions, sizes.state
    kernel = gru.Gru(
        sizes.sequence, sizes.batch, inputs, hidden, directions, x_strides=sizes.x, y_strides=sizes.y,
        initial_h_strides=state, y_h_strides=state,
        reverse=op.direction == "reverse", linear_before_reset=op.linear_before_reset,
        clip=clip_of(op), activations=activations_of(op),
    )  # fmt: skip
    return launched(gru.SYMBOL, kernel, kernel.args, node, context)


@dataclass(frozen=True)
class LayerSizes:
    """Sizes, and strides in elements: of x by sequence and batch, of y by sequence, direction and batch, of
    states by direction and batch.
    """

    sequence: Dim
    batch: Dim
    x: tuple[Dim, Dim]
    y: tuple[Dim, Dim, Dim]
    state: tuple[Dim, Dim]


def sizes_of(node: Node, op: Recurrent) -> LayerSizes:
    """The sizes and strides of the operands of ``op``, whose first axis is batch or time."""
    first, second, inputs = node.operand(0).type.dims
    hidden, wide = op.hidden, op.directions * op.hidden
    if op.batch_first:
        return LayerSizes(
            second, first, (inputs, second * inputs), (wide, hidden, second * wide), (hidden, wide)
        )
    return LayerSizes(
        first,
        second,
        (second * inputs, inputs),
        (second * wide, second * hidden, hidden),
        (second * hidden, hidden),
    )


def refusal_of(node: Node, op: Recurrent) -> str | None:
    """The reason why the library has no kernel for ``node``; None if it has one."""
    if node.operand(0).type.dtype != F32:
        return f"no recurrent kernel for {node.operand(0).type.dtype}"
    if not all(isinstance(d, int) for p in (1, 2) for d in node.operand(p).type.dims):
        return "the sizes of its weights are not known"
    unknown = [name for name in op.activations if name.lower() not in _KINDS]
    return f"no kernel with activation {unknown[0]}" if unknown else None


def launched(symbol: str, kernel: rnn.Recurrent, args: tuple[Dim, ...], node: Node, context: Context) -> Run:
    """One launch for a layer: packs weights, and adds absent trailing operands."""
    abi, (x, _, _, *rest) = kernel.CELL.abi, node.inputs
    weights = (packed(node.operand(position), WEIGHTS_LAYOUT, node, context) for position in (1, 2))
    absent = [None] * (len(abi.operands) - 3 - len(rest) - len(node.outputs))
    operands = (x, *weights, *rest, *absent, *node.outputs)
    written = tuple(range(len(operands) - len(node.outputs), len(operands)))
    costs = kernel.grid, kernel.scratch_bytes, kernel.work_ns(context.isa)
    return Run((Launch(KernelRef(symbol), operands, written, args, *costs),))


def clip_of(op: Recurrent) -> float:
    """The clip bound of the gates; infinity if there is none."""
    return op.clip if op.clip is not None and op.clip > 0 else math.inf


def activations_of(op: Recurrent) -> tuple[Activation, ...]:
    """The activations of both directions, even if the layer has one."""
    alphas, betas = iter(op.alphas), iter(op.betas)
    names = op.activations or op.defaults * op.directions
    activations = tuple(_activation(name.lower(), alphas, betas) for name in names)
    return activations if op.directions == 2 else activations * 2


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    defaults = ACTIVATIONS[name]
    alpha = 0.0 if defaults.alpha is None else next(alphas, defaults.alpha)
    beta = 0.0 if defaults.beta is None else next(betas, defaults.beta)
    return Activation(_KINDS[name], alpha, beta)

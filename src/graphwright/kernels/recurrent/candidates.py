"""LSTM and GRU: one launch for the whole sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from graphwright.ir.graph import Node
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.packing import packed
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, launch_of
from graphwright.kernels.recurrent import gru, lstm, rnn
from graphwright.kernels.recurrent.rnn import WEIGHTS_LAYOUT, Activation, ActivationKind, Pair
from graphwright.ops.nn.gru import GRU
from graphwright.ops.nn.lstm import LSTM
from graphwright.ops.nn.recurrent import ACTIVATIONS, Recurrent

_KINDS = {kind.name.replace("_", "").lower(): kind for kind in ActivationKind}


@candidate(LSTM)
def long_short_term_memory(node: Node[LSTM], context: Context) -> Launch | str:
    """One launch for the whole sequence, in f32."""
    refusal = refusal_of(node, node.op)
    if refusal is not None:
        return refusal
    fields = fields_of(node, node.op)
    state = fields["y_h_strides"]
    kernel = lstm.Lstm(
        **fields,
        initial_c_strides=state,
        y_c_strides=state,
        input_forget=node.op.coupled,
        activations=activations_of(node.op),
    )
    return launch_layer(lstm.SYMBOL, kernel, node, context)


@candidate(GRU)
def gated_recurrent_unit(node: Node[GRU], context: Context) -> Launch | str:
    """One launch for the whole sequence, in f32."""
    refusal = refusal_of(node, node.op)
    if refusal is not None:
        return refusal
    kernel = gru.Gru(
        **fields_of(node, node.op),
        linear_before_reset=node.op.linear_before_reset,
        activations=activations_of(node.op),
    )
    return launch_layer(gru.SYMBOL, kernel, node, context)


def fields_of(node: Node, op: Recurrent) -> dict[str, Any]:
    """The fields that the kernels of all layers have: sizes, strides in elements, direction and clip bound.
    The first axis of the operands of ``op`` is batch or time.
    """
    first, second, inputs = node.operand(0).type.dims
    hidden, wide = op.hidden, op.directions * op.hidden
    x: Pair = (second * inputs, inputs)
    y: tuple[Dim, Dim, Dim] = (second * wide, second * hidden, hidden)
    sequence, batch, state = first, second, (second * hidden, hidden)
    if op.batch_first:
        x, y = (inputs, second * inputs), (wide, hidden, second * wide)
        sequence, batch, state = second, first, (hidden, wide)
    return {
        "sequence": sequence,
        "batch": batch,
        "inputs": inputs,
        "hidden": hidden,
        "directions": op.directions,
        "x_strides": x,
        "y_strides": y,
        "initial_h_strides": state,
        "y_h_strides": state,
        "reverse": op.direction == "reverse",
        "clip": op.clip if op.clip is not None and op.clip > 0 else math.inf,
    }


def refusal_of(node: Node, op: Recurrent) -> str | None:
    """The reason why the library has no kernel for ``node``; None if it has one."""
    if node.operand(0).type.dtype != F32:
        return f"no recurrent kernel for {node.operand(0).type.dtype}"
    if not all(isinstance(d, int) for p in (1, 2) for d in node.operand(p).type.dims):
        return "the sizes of its weights are not known"
    unknown = [name for name in op.activations if name.lower() not in _KINDS]
    return f"no kernel with activation {unknown[0]}" if unknown else None


def launch_layer(symbol: str, kernel: rnn.Recurrent, node: Node, context: Context) -> Launch:
    """One launch for a layer: packs weights, and adds absent trailing operands."""
    abi, (x, _, _, *rest) = kernel.CELL.abi, node.inputs
    weights = (packed(node.operand(position), WEIGHTS_LAYOUT, node, context) for position in (1, 2))
    absent = [None] * (len(abi.operands) - 3 - len(rest) - len(node.outputs))
    operands = (x, *weights, *rest, *absent, *node.outputs)
    written = tuple(range(len(operands) - len(node.outputs), len(operands)))
    return launch_of(kernel, symbol, operands, written, context.isa)


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

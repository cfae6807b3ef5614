"""Import of ONNX Runtime's QMoE: a mixture of experts with quantized weights, each of which is a matrix
multiplication of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ops.contrib.attention import wide
from graphwright.ops.contrib.common import added, contribute
from graphwright.ops.contrib.mixture import Layer, Routes, features_of, network, outputs_of, routes, summed
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.non_zero import NonZero
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.quantized.matmul_nbits import MatMulNBits, unpacked

_Layers: TypeAlias = Callable[[int], Layer]
"""The layer of each expert."""
_MIN_BLOCK = 32


def _import(i: Importer) -> Value:
    """Inputs: x, the router's logits [tokens, experts]; codes, scales and bias of each of three layers; their
    zero points; and the weights of all experts for each token.
    """
    kind = str(i.attr("quant_type", "int"))
    if kind != "int":
        raise i.fail(f"quant_type {kind!r} is not supported", "export the model with integer weights")
    if int(i.attr("weights_prepacked", -1)) == 1:
        raise i.fail(
            "the weights are packed for a GPU (weights_prepacked is 1)", "export the model for the CPU"
        )
    to, layers = routes(i, i.optional(14)), [_quantized(i, number) for number in (1, 2, 3)]
    return summed(i, to, [_outputs(i, to, expert, layers) for expert in range(to.experts)])


def _outputs(i: Importer, to: Routes, expert: int, layers: list[_Layers | None]) -> tuple[Value, Value]:
    """The tokens that are routed to an expert, and its weighted outputs."""
    is_chosen = i.emit(Equal(), to.chosen, i.const(np.array(expert)))
    order = i.emit(Squeeze((0,)), i.emit(NonZero(), is_chosen))
    return outputs_of(i, to, order, network(i, [layer and layer(expert) for layer in layers]))


def _quantized(i: Importer, number: int) -> _Layers | None:
    """The layers of the codes [experts, N, K * bits / 8]; None if they are absent.

    The scales are [experts, N, K / block], or [experts, N] for whole rows. The zero points are packed along
    the last axis of the scales.
    """
    first = 3 * number - 1
    if i.optional(first) is None:
        return None
    bits = int(i.attr(f"fc{number}_expert_weight_bits", i.attr("expert_weight_bits", 4)))
    codes, scales = _constant(i, first, "codes"), _constant(i, first + 1, "scales")
    zeros = None if i.optional(10 + number) is None else _constant(i, 10 + number, "zero points")
    if codes.shape[:2] != scales.shape[:2] or codes.ndim != 3:
        raise i.fail(
            f"layer {number} has codes {list(codes.shape)} and scales {list(scales.shape)}; both must begin "
            "with the numbers of experts and features",
            "export the model for the CPU: other processors have other layouts",
        )
    columns = codes.shape[2] * 8 // bits
    block = int(i.attr("block_size", 0)) if scales.ndim == 3 else 0
    op = MatMulNBits(bits, block or max(_MIN_BLOCK, columns & -columns))
    blocks = -(-columns // op.block)

    def layer(expert: int, features: slice, x: Value) -> Value:
        words = _words(codes[expert, features], blocks * op.block * bits // 8)
        factors = _per_block(scales[expert], blocks)[features].astype(np.float32)
        operands = [x, i.const(words), i.const(factors)]
        if zeros is not None:
            points = unpacked(zeros[expert], bits)[..., : scales.shape[-1]]
            operands.append(i.const(_per_block(points, blocks)[features]))
        y: Value = i.emit(op, *operands)
        if i.optional(first + 2) is None:
            return y
        bias = i.emit(Gather(), features_of(i, first + 2, features), i.const(np.array(expert)))
        return added(i, y, wide(i, bias))

    return lambda expert: partial(layer, expert)


def _constant(i: Importer, index: int, what: str) -> Array:
    known = i.constant(index)
    if known is None:
        raise i.fail(f"the {what} are not constant (input {index})", "store them as an initializer")
    return known


def _words(codes: Array, size: int) -> Array:
    """Rows of ``codes``, padded with zeros to ``size`` bytes, as 32-bit words."""
    padded = np.zeros((len(codes), size), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view("<u4")


def _per_block(parameter: Array, blocks: int) -> Array:
    """A parameter [N, blocks] of an expert, or [N] of whole rows, as [N, blocks]."""
    if parameter.ndim == 2:
        return np.ascontiguousarray(parameter)
    return np.repeat(parameter[:, None], blocks, 1)


contribute(MatMulNBits, QMoE=ranked(_import))

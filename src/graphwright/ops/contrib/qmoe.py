"""Import of ONNX Runtime's QMoE: a mixture of experts with quantized weights."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ops.contrib.mixture import Experts, Routes, mixture, with_bias
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.quantized.grouped_matmul_nbits import GroupedMatMulNBits
from graphwright.ops.quantized.matmul_nbits import unpacked

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
    return mixture(i, [_layer(i, number) for number in (1, 2, 3)], i.optional(14))


def _layer(i: Importer, number: int) -> Experts | None:
    """The layer of the codes [experts, N, K * bits / 8]; None if it is absent.

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
    op = GroupedMatMulNBits(bits, block or max(_MIN_BLOCK, columns & -columns))
    blocks = -(-columns // op.block)

    def layer(routes: Routes, features: slice, x: Value) -> Value:
        words = _words(codes[:, features], blocks * op.block * bits // 8)
        factors = _per_block(scales, blocks)[:, features].astype(np.float32)
        operands = [x, i.const(words), i.const(factors), routes.ends]
        if zeros is not None:
            points = unpacked(zeros, bits)[..., : scales.shape[-1]]
            operands.append(i.const(_per_block(points, blocks)[:, features]))
        return with_bias(i, i.emit(op, *operands), first + 2, features, routes)

    return layer


def _constant(i: Importer, index: int, what: str) -> Array:
    known = i.constant(index)
    if known is None:
        raise i.fail(f"the {what} are not constant (input {index})", "store them as an initializer")
    return known


def _words(codes: Array, size: int) -> Array:
    """Codes [experts, N, bytes], padded with zeros to ``size`` bytes, as 32-bit words."""
    padded = np.zeros((*codes.shape[:2], size), np.uint8)
    padded[..., : codes.shape[2]] = codes
    return padded.view("<u4")


def _per_block(parameter: Array, blocks: int) -> Array:
    """A parameter [experts, N, blocks], or [experts, N] of whole rows, as [experts, N, blocks]."""
    return parameter if parameter.ndim == 3 else np.repeat(parameter[..., None], blocks, 2)


register_contrib(GroupedMatMulNBits, QMoE=ranked(_import))

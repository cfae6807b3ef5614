"""Import of ONNX Runtime's MoEGroupRouter: each token chooses groups of experts, and then experts of these
groups (DeepSeek-AI 2024).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.types import I64
from graphwright.ops.contrib.attention import wide
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, Greater, Max
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.top_k import TopK
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Log, Sigmoid
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where

_LEAST = 1e-20
"""The smallest score whose logarithm is returned."""


def _import(i: OnnxImporter) -> Any:
    """Inputs: the logits [..., E] and the bias of the experts [E], or the rows of tokens and the projection
    [E, K] to logits. Outputs: the logarithms of the scores of the chosen experts, ``router_sentinel`` for
    others; or, without a choice, the scores plus bias, and the scores.
    """
    logits, projection = wide(i, i.input(0)), i.optional(2)
    if projection is not None:
        logits = i.emit(MatMul(), logits, i.emit(Transpose((1, 0)), wide(i, projection)))
    experts = logits.type.dims[-1]
    if not isinstance(experts, int):
        raise i.fail(f"the logits are {logits.type}", hint="their last axis, the experts, must be static")
    scores = i.emit(Sigmoid(), i.emit(Reshape((-1, experts)), logits))
    biased = i.emit(Add(), scores, wide(i, i.input(1)))
    if i.output_count > 1:
        return None, biased, scores
    chosen = _chosen(i, _of_best_groups(i, biased, experts), int(i.required_attr("top_k")))
    logarithms = i.emit(Log(), i.emit(Max(), scores, scalar(i, _LEAST, scores)))
    sentinel = scalar(i, float(i.required_attr("router_sentinel")), scores)
    return as_dtype(i.builder, i.emit(Where(), chosen, logarithms, sentinel), i.input(0).type.dtype)


def _of_best_groups(i: Importer, biased: Value, experts: int) -> Value:
    """The scores [tokens, E] of the ``topk_group`` groups whose ``group_topk`` best scores have the largest
    sums; -inf for experts of other groups.
    """
    groups, best, kept = (int(i.attr(name, 1)) for name in ("n_group", "group_topk", "topk_group"))
    if groups < 1 or experts % groups or not 1 <= kept <= groups or best < 1:
        raise i.fail(
            f"{experts} experts, n_group {groups}, topk_group {kept}, group_topk {best} do not match",
            hint="n_group must divide the number of experts, topk_group must be 1 to n_group, and group_topk "
            "must be at least 1",
        )
    size = experts // groups
    grouped = i.emit(Reshape((-1, groups, size)), biased)
    sums = i.emit(ReduceSum((2,), keepdims=False), i.emit(TopK(k=min(best, size)), grouped)[0])
    is_kept = i.emit(Unsqueeze((2,)), _chosen(i, sums, kept))
    y: Value = i.emit(Reshape((-1, experts)), i.emit(Where(), is_kept, grouped, scalar(i, -np.inf, grouped)))
    return y


def _chosen(i: Importer, scores: Value, count: int) -> Value:
    """Which elements of each row of scores[tokens, n] are the ``count`` largest."""
    numbers = i.emit(Range((0, scores.type.dims[1], 1)))
    indices = i.emit(TopK(k=count), scores)[1]
    is_index = i.emit(Equal(), i.emit(Unsqueeze((2,)), indices), numbers)
    hits = i.emit(ReduceSum((1,), keepdims=False), i.emit(Cast(I64), is_index))
    y: Value = i.emit(Greater(), hits, i.const(np.asarray(0)))
    return y


register_contrib(TopK, MoEGroupRouter=ranked(_import))

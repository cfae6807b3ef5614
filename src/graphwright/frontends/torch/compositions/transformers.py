"""The fused attention and encoder layers of PyTorch's fast path."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


def _visible(mask: Tensor | None, mask_type: int | None, heads: int) -> Tensor | None:
    """The attention mask as a tensor that broadcasts to [batch, heads, queries, keys] and is True for visible
    keys.

    ``mask`` is True for hidden keys. Its shape is [queries, keys] (type 0), [batch, keys] (type 1), or
    [batch, heads, queries, keys] (type 2).
    """
    if mask is None:
        return None
    seen = mask.to(torch.bool).logical_not()
    if mask_type == 1:
        return seen.unsqueeze(1).unsqueeze(1)
    return seen if mask_type == 0 else seen.reshape(-1, heads, *seen.shape[-2:])


@composition(aten._native_multi_head_attention.default)
def multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None,
    need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    if query is key and key is value:
        parts = functional.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        factors = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
        parts = tuple(functional.linear(*each) for each in factors)
    q, k, v = (part.reshape(*part.shape[:2], num_head, -1).transpose(1, 2) for part in parts)
    visible = _visible(mask, mask_type, num_head)
    weights = None
    if need_weights:
        scores = torch.matmul(q, k.transpose(-2, -1)) * q.shape[-1] ** -0.5
        weights = (scores if visible is None else scores.masked_fill(~visible, -math.inf)).softmax(-1)
        seen = torch.matmul(weights, v)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        seen = functional.scaled_dot_product_attention(q, k, v, visible)
    return functional.linear(seen.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


@composition(aten._transformer_encoder_layer_fwd.default)
def transformer_encoder_layer(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor,
    proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor,
    norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor, ffn_weight_1: Tensor, ffn_bias_1: Tensor,
    ffn_weight_2: Tensor, ffn_bias_2: Tensor, mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:  # fmt: skip
    def attended(x: Tensor) -> Tensor:
        attention, _ = multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            need_weights=False, mask_type=mask_type,
        )  # fmt: skip
        return attention

    def fed(x: Tensor) -> Tensor:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        return functional.linear(
            inner.relu() if not use_gelu else functional.gelu(inner), ffn_weight_2, ffn_bias_2
        )

    def first(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        hidden = src + attended(first(src))
        return hidden + fed(second(hidden))
    hidden = first(src + attended(src))
    return second(hidden + fed(hidden))

"""Attention in training: the forward operator with the logarithms of its sums, and its gradients.

The weights of attention are not stored for the gradients, but computed again from these logarithms (Dao et
al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", 2022, appendix B). Queries
are divided into blocks, which bounds the memory of scores; with a causal mask, a block has no later keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from graphwright.frontends.torch.compositions.registry import composition
from graphwright.records import dataclass

aten = torch.ops.aten
_MOST_SCORES = 1 << 24
"""About the most scores of a block."""
_CAUSAL_ROWS = 128
"""The rows of a block with a causal mask. The mask hides only half of the scores in the last columns of a
block, so short blocks compute few hidden scores.
"""
_LEAST_ROWS = 64
_MOST_BLOCKS = 16
"""The most blocks: each adds operators to the graph."""


@dataclass(frozen=True)
class _Block:
    """Rows of queries, and the keys that they may see, from the first one on."""

    rows: slice
    keys: int


def _blocks(q: Tensor, k: Tensor, causal: bool) -> Iterator[_Block]:
    """The blocks of the queries. Raises NotImplementedError if the numbers of queries and keys are not
    static: their scores could need any amount of memory.
    """
    rows, keys = q.shape[-2], k.shape[-2]
    if not isinstance(rows, int) or not isinstance(keys, int):
        raise NotImplementedError("the numbers of queries and keys are not known")
    matrices = math.prod(each if isinstance(each, int) else 1 for each in q.shape[:-2])
    most = max(_LEAST_ROWS, _MOST_SCORES // max(1, matrices * keys))
    size = max(min(_CAUSAL_ROWS, most) if causal else most, -(-rows // _MOST_BLOCKS), 1)
    for first in range(0, max(rows, 1), size):
        last = min(rows, first + size)
        yield _Block(slice(first, last), min(keys, last) if causal else keys)


def _scores(
    q: Tensor, k: Tensor, causal: bool, mask: Tensor | None, scale: float | None, block: _Block
) -> Tensor:
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = (q[..., block.rows, :] @ k[..., : block.keys, :].mT) * scale
    if mask is not None:
        mask = mask if mask.shape[-2] == 1 else mask[..., block.rows, :]
        scores = scores + (mask if mask.shape[-1] == 1 else mask[..., : block.keys])
    if causal:
        row = torch.arange(block.rows.start, block.rows.stop).unsqueeze(-1)
        scores = torch.where(torch.arange(block.keys) <= row, scores, -math.inf)
    return scores


@composition(aten._scaled_dot_product_flash_attention_for_cpu.default)
def attention(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The result and the logarithms of the sums of exponentials of scores. A query that sees no key gives
    zeros.
    """
    _refuse_dropout(dropout_p)
    results, logarithms = [], []
    wide_q, wide_k, wide_v = q.float(), _repeated(k.float(), q), _repeated(v.float(), q)
    for block in _blocks(q, k, is_causal):
        scores = _scores(wide_q, wide_k, is_causal, attn_mask, scale, block)
        largest = scores.amax(-1, keepdim=True)
        largest = torch.where(largest == -math.inf, 0, largest)
        terms = (scores - largest).exp()
        total = terms.sum(-1, keepdim=True)
        results.append(terms @ wide_v[..., : block.keys, :] / torch.where(total == 0, 1, total))
        logarithms.append((largest + total.log()).squeeze(-1))
    return torch.cat(results, -2).to(q.dtype), torch.cat(logarithms, -1)


@composition(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def attention_gradients(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, result: Tensor, logarithms: Tensor, dropout_p: float,
    is_causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of queries, keys and values."""
    _refuse_dropout(dropout_p)
    dtype = q.dtype
    heads = k.shape[1]
    gradient, q, k, v = gradient.float(), q.float(), _repeated(k.float(), q), _repeated(v.float(), q)
    shift = (gradient * result.float()).sum(-1, keepdim=True)
    logarithms = torch.where(logarithms == -math.inf, math.inf, logarithms).unsqueeze(-1)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    grad_q, grad_k, grad_v = [], torch.zeros_like(k), torch.zeros_like(v)
    for block in _blocks(q, k, is_causal):
        rows, keys = block.rows, block.keys
        scores = _scores(q, k, is_causal, attn_mask, scale, block)
        weights = (scores - logarithms[..., rows, :]).exp()
        grad_rows = gradient[..., rows, :]
        grad_scores = weights * (grad_rows @ v[..., :keys, :].mT - shift[..., rows, :]) * factor
        grad_q.append(grad_scores @ k[..., :keys, :])
        hidden = (0, 0, 0, k.shape[-2] - keys)
        grad_k = grad_k + functional.pad(grad_scores.mT @ q[..., rows, :], hidden)
        grad_v = grad_v + functional.pad(weights.mT @ grad_rows, hidden)
    grad_k, grad_v = _summed(grad_k, heads), _summed(grad_v, heads)
    return torch.cat(grad_q, -2).to(dtype), grad_k.to(dtype), grad_v.to(dtype)


def _repeated(x: Tensor, q: Tensor) -> Tensor:
    """``x`` with the heads of ``q``: consecutive heads of queries share a head of keys and values."""
    return x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def _summed(x: Tensor, heads: int) -> Tensor:
    """The sums of ``x`` over the heads of queries that share one of ``heads``."""
    return x if x.shape[1] == heads else x.reshape(x.shape[0], heads, -1, *x.shape[2:]).sum(2)


def _refuse_dropout(dropout: float) -> None:
    if dropout:
        raise NotImplementedError(f"dropout_p={dropout} is not supported")

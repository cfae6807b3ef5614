"""Operators that are compositions of others, where PyTorch has no decomposition, or none that serves.

Each is written in PyTorch, as its own decompositions are, and is used where no op of graphwright takes the
call; NotImplementedError leaves that with PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

aten = torch.ops.aten
Composition: TypeAlias = Callable[..., Any]
Function = TypeVar("Function", bound=Composition)

COMPOSITIONS: dict[Any, Composition] = {}


def composition(*operators: Any) -> Callable[[Function], Function]:
    """Register a function for these operators."""

    def register(function: Function) -> Function:
        COMPOSITIONS.update(dict.fromkeys(operators, function))
        return function

    return register


def _lowest(x: Tensor) -> float:
    if x.dtype == torch.bool:
        return False
    return -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min


def _highest(x: Tensor) -> float:
    if x.dtype == torch.bool:
        return True
    return math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).max


def _isnan(x: Tensor) -> Tensor:
    return x.isnan() if x.dtype.is_floating_point else torch.zeros_like(x, dtype=torch.bool)


def _positions(x: Tensor, dim: int) -> Tensor:
    """The place of each element along ``dim``, as a tensor that broadcasts to ``x``."""
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    return torch.arange(x.shape[dim]).reshape(shape)


# -- products -----------------------------------------------------------------------------------------------


@composition(aten.addbmm.default)
def addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    total = alpha * torch.bmm(a, b).sum(0)
    return total if beta == 0 else beta * x + total


@composition(aten._trilinear.default)
def trilinear(
    a: Tensor, b: Tensor, c: Tensor, expand_a: Sequence[int], expand_b: Sequence[int],
    expand_c: Sequence[int], summed: Sequence[int], unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    spread = []
    for x, axes in ((a, expand_a), (b, expand_b), (c, expand_c)):
        for axis in sorted(axes):
            x = x.unsqueeze(axis)
        spread.append(x)
    made = spread[0] * spread[1] * spread[2]
    return made.sum(list(summed)) if summed else made


# -- transformers -------------------------------------------------------------------------------------------


def _visible(mask: Tensor | None, mask_type: int | None, heads: int) -> Tensor | None:
    """Where queries see keys: a tensor that broadcasts to [batch, heads, queries, keys]. ``mask``, True where
    they do not, is [queries, keys] (type 0), [batch, keys] (1), or has all of them (2).
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
        made, _ = multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False,
            mask_type=mask_type,
        )  # fmt: skip
        return made

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
        made = src + attended(first(src))
        return made + fed(second(made))
    made = first(src + attended(src))
    return second(made + fed(made))


# -- order --------------------------------------------------------------------------------------------------


@composition(aten.kthvalue.default)
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = x.sort(dim=dim, stable=True)
    made = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return made if keepdim else (made[0].squeeze(dim), made[1].squeeze(dim))


@composition(aten.median.default)
def median(x: Tensor) -> Tensor:
    if x.numel() == 0:
        raise NotImplementedError
    return median_along(x.reshape(-1), 0)[0]


@composition(aten.nanmedian.default)
def nanmedian(x: Tensor) -> Tensor:
    if x.numel() == 0:
        raise NotImplementedError
    return nanmedian_along(x.reshape(-1), 0)[0]


@composition(aten.median.dim)
def median_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower one of two; of elements with NaN the first NaN."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = kthvalue(x, (x.shape[dim] + 1) // 2, dim, True)
    if x.dtype.is_floating_point:
        unordered = x.isnan()
        some = unordered.any(dim, keepdim=True)
        values = torch.where(some, math.nan, values)
        indices = torch.where(some, unordered.to(torch.uint8).argmax(dim, keepdim=True), indices)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


@composition(aten.nanmedian.dim)
def nanmedian_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """NaN is sorted to the end: the lower middle of what stands before."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = x.sort(dim=dim, stable=True)
    place = (((~_isnan(x)).sum(dim, keepdim=True) - 1) // 2).clamp(min=0)
    made = values.gather(dim, place), indices.gather(dim, place)
    return made if keepdim else (made[0].squeeze(dim), made[1].squeeze(dim))


@composition(aten.mode.default)
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The least of the most frequent elements: the end of the first longest run when sorted."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = x.sort(dim=dim, stable=True)
    before = values.narrow(dim, 0, x.shape[dim] - 1)
    begins = functional.pad(
        (values.narrow(dim, 1, x.shape[dim] - 1) != before).movedim(dim, -1), (1, 0), value=True
    ).movedim(-1, dim)
    places = _positions(x, dim)
    starts = _running(torch.where(begins, places, 0), dim, torch.maximum)
    end = (places - starts).argmax(dim, keepdim=True)
    made = values.gather(dim, end), indices.gather(dim, end)
    return made if keepdim else (made[0].squeeze(dim), made[1].squeeze(dim))


# -- scans --------------------------------------------------------------------------------------------------


def _running(x: Tensor, dim: int, combine: Composition) -> Tensor:
    """All prefixes of an associative ``combine`` in log2(n) steps: W. D. Hillis and G. L. Steele, "Data
    parallel algorithms" (1986).
    """
    size = x.shape[dim]
    if not isinstance(size, int):
        raise NotImplementedError
    step = 1
    while step < size:
        kept, rest = x.narrow(dim, 0, step), x.narrow(dim, step, size - step)
        x = torch.cat([kept, combine(x.narrow(dim, 0, size - step), rest)], dim)
        step *= 2
    return x


def _running_extreme(combine: Composition) -> Composition:
    """With the places of the last elements that equal the extreme."""

    def scan(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        if x.dim() == 0:
            return x.clone(), torch.zeros((), dtype=torch.int64)
        values = _running(x, dim, combine)
        hits = (x == values) | _isnan(x)
        return values, _running(torch.where(hits, _positions(x, dim), 0), dim, torch.maximum)

    return scan


COMPOSITIONS[aten.cummax.default] = _running_extreme(torch.maximum)
COMPOSITIONS[aten.cummin.default] = _running_extreme(torch.minimum)


@composition(aten.logcumsumexp.default)
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    if x.dim() == 0:
        return x.clone()
    made = _running(x.float() if x.dtype in (torch.float16, torch.bfloat16) else x, dim, torch.logaddexp)
    return made.to(x.dtype)


# -- search -------------------------------------------------------------------------------------------------


@composition(aten.searchsorted.Tensor)
def searchsorted(
    boundaries: Tensor, x: Tensor, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """By halves: the number of boundaries below each element, bit by bit."""
    size = boundaries.shape[-1]
    if not isinstance(size, int):
        raise NotImplementedError
    ordered = boundaries if sorter is None else boundaries.gather(-1, sorter)
    place = torch.zeros_like(x, dtype=torch.int64)
    for bit in reversed(range(size.bit_length())):
        probe = place + (1 << bit)
        at = (probe - 1).clamp(max=size - 1)
        met = (
            ordered.index_select(0, at.reshape(-1)).reshape(at.shape)
            if ordered.dim() == 1
            else ordered.gather(-1, at)
        )
        beyond = ~(met > x) if right or side == "right" else ~(met >= x)
        place = torch.where((probe <= size) & beyond, probe, place)
    return place.to(torch.int32) if out_int32 else place


@composition(aten.searchsorted.Scalar)
def searchsorted_of_number(boundaries: Tensor, x: Any, **named: Any) -> Tensor:
    return searchsorted(boundaries, torch.full((), x, dtype=boundaries.dtype), **named)


@composition(aten.bucketize.Tensor)
def bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


@composition(aten.bucketize.Scalar)
def bucketize_number(x: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return searchsorted_of_number(boundaries, x, out_int32=out_int32, right=right)


@composition(aten.histc.default)
def histc(x: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    flat = x.reshape(-1)
    if not x.dtype.is_floating_point or x.numel() == 0:
        raise NotImplementedError
    low, high = torch.full((), min, dtype=x.dtype), torch.full((), max, dtype=x.dtype)
    if min == max:
        low, high = flat.min(), flat.max()
        same = low == high
        low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    inside = (flat >= low) & (flat <= high)
    place = ((flat - low) / (high - low) * bins).to(torch.int64).clamp(0, bins - 1)
    return torch.zeros(bins, dtype=x.dtype).scatter_add(0, torch.where(inside, place, 0), inside.to(x.dtype))


@composition(aten.nonzero_static.default)
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    flat = (x != 0).reshape(-1)
    rank = flat.to(torch.int64).cumsum(0) - 1
    target = torch.where(flat & (rank < size), rank, size)
    places = torch.arange(x.numel())
    found = torch.full((size + 1,), -1, dtype=torch.int64).scatter(0, target, places)[:size]
    columns = []
    for axis in range(x.dim()):
        stride = math.prod(x.shape[axis + 1 :])
        columns.append(torch.where(found < 0, fill_value, found // stride % x.shape[axis]))
    return torch.stack(columns, 1) if columns else torch.zeros((size, 0), dtype=torch.int64)


# -- scattering ---------------------------------------------------------------------------------------------


def _start(x: Tensor, reduce: str) -> float:
    """What changes no other element."""
    return {"amax": _lowest(x), "amin": _highest(x), "prod": 1}.get(reduce, 0)


@composition(aten.scatter_reduce.two)
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce != "mean" and include_self:
        raise NotImplementedError
    base = x if include_self else x.scatter(dim, index, _start(x, reduce))
    if reduce != "mean":
        return torch.scatter_reduce(base, dim, index, src, reduce)
    ones = torch.ones_like(src)
    count = torch.full_like(x, int(include_self)).scatter_add(dim, index, ones).clamp(min=1)
    mode = None if x.dtype.is_floating_point else "floor"
    return torch.div(base.scatter_add(dim, index, src), count, rounding_mode=mode)


@composition(aten.index_reduce.default)
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if x.dim() == 0:
        one = index_reduce(x.reshape(1), 0, index, source.reshape(-1), reduce, include_self=include_self)
        return one.reshape(())
    shape = [1] * x.dim()
    shape[dim] = -1
    places = index.to(torch.int64).reshape(shape).expand(source.shape)
    return torch.scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


@composition(aten.diagonal_scatter.default)
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    place = torch.arange(src.shape[-1])
    rows, columns = place + max(-offset, 0), place + max(offset, 0)
    front = x.movedim((dim1, dim2), (0, 1))
    return front.index_put((rows, columns), src.movedim(-1, 0)).movedim((0, 1), (dim1, dim2))


@composition(aten.as_strided_scatter.default)
def as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    if not x.is_contiguous() or (storage_offset is None and x.storage_offset()):
        raise NotImplementedError
    place = torch.full((), storage_offset or 0, dtype=torch.int64)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[axis] = count
        place = place + (torch.arange(count) * step).reshape(shape)
    return x.reshape(-1).scatter(0, place.reshape(-1), src.reshape(-1)).reshape(x.shape)


@composition(aten.masked_scatter.default)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    if source.numel() == 0:
        raise NotImplementedError
    shape = torch.where(mask, x, x).shape
    x, mask = x.expand(shape), mask.expand(shape)
    rank = (mask.reshape(-1).to(torch.int64).cumsum(0) - 1).clamp(min=0, max=source.numel() - 1)
    return torch.where(mask, source.reshape(-1)[rank].reshape(x.shape), x)


@composition(aten.put.default)
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat = x.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate)
    return flat.reshape(x.shape)


# -- distances ----------------------------------------------------------------------------------------------


def _norm(x: Tensor, p: float) -> Tensor:
    """Of the last axis."""
    size = x.abs()
    if p == 0:
        return (size != 0).to(x.dtype).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == math.inf:
        return size.amax(-1) if x.shape[-1] else x.sum(-1)
    return (x * x).sum(-1).sqrt() if p == 2 else size.pow(p).sum(-1).pow(1 / p)


@composition(aten._cdist_forward.default)
def cdist(a: Tensor, b: Tensor, p: float, compute_mode: int | None = None) -> Tensor:
    return _norm(a.unsqueeze(-2) - b.unsqueeze(-3), p)


@composition(aten._pdist_forward.default)
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    if not isinstance(x.shape[0], int):
        raise NotImplementedError
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return _norm(x[first] - x[second], p)


# -- windows ------------------------------------------------------------------------------------------------


def _adaptive_windows(whole: int, count: int) -> tuple[Tensor, Tensor]:
    """The places of the elements of ``count`` windows, and which are inside them."""
    widest = max(-(-(k + 1) * whole // count) - k * whole // count for k in range(count))
    window = torch.arange(count).unsqueeze(1)
    places = window * whole // count + torch.arange(widest)
    ends = ((window + 1) * whole + count - 1) // count
    return places.clamp(max=whole - 1), places < ends


@composition(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    rank = len(output_size)
    sizes = x.shape[-rank:]
    if not all(isinstance(size, int) and size for size in (*sizes, *output_size)):
        raise NotImplementedError
    if all(size % count == 0 for size, count in zip(sizes, output_size, strict=True)):
        pool = aten.max_pool2d_with_indices if rank == 2 else aten.max_pool3d_with_indices
        largest, where = pool(x, [size // count for size, count in zip(sizes, output_size, strict=True)])
        return largest, where
    places = torch.zeros((), dtype=torch.int64)
    inside = torch.ones((), dtype=torch.bool)
    for axis, (size, count) in enumerate(zip(sizes, output_size, strict=True)):
        own, within = _adaptive_windows(size, count)
        shape = [1] * 2 * rank
        shape[axis], shape[rank + axis] = own.shape
        places = places * size + own.reshape(shape)
        inside = inside & within.reshape(shape)
    windows = x.flatten(-rank)[..., places].masked_fill(~inside, _lowest(x)).flatten(-rank)
    best = windows.argmax(-1, keepdim=True)
    values = windows.gather(-1, best).squeeze(-1)
    flat = places.flatten(-rank)
    indices = flat.expand(*windows.shape[: -rank - 1], *flat.shape).gather(-1, best).squeeze(-1)
    return values, indices


@composition(aten.avg_pool2d.default, aten.avg_pool3d.default)
def avg_pool(
    x: Tensor, kernel_size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """With a divisor of its own: the mean of windows over zeros as well, times their size."""
    pool, rank = aten.avg_pool2d.default, 2
    if len(kernel_size) == 3 or x.dim() == 5:
        pool, rank = aten.avg_pool3d.default, 3
    sizes = x.shape[-rank:]
    if divisor_override is None or not all(isinstance(size, int) for size in sizes):
        raise NotImplementedError
    kernel, steps, pads = (_per_axis(n, rank) for n in (kernel_size, stride or kernel_size, padding))
    zeros: list[int] = []
    for size, width, step, before in zip(sizes, kernel, steps, pads, strict=True):
        last = _windows(size, width, step, before, ceil_mode) - 1
        zeros = [before, max(last * step + width - size - before, 0), *zeros]
    mean: Tensor = pool(functional.pad(x, zeros), kernel, steps)
    return mean * (math.prod(kernel) / divisor_override)


def _per_axis(sizes: Sequence[int], rank: int) -> Sequence[int]:
    return list(sizes) * rank if len(sizes) == 1 else sizes


def _windows(size: int, width: int, step: int, before: int, ceil_mode: bool) -> int:
    """How many windows there are: with ``ceil_mode`` the last may overhang, but begins inside."""
    room = size + 2 * before - width
    if not ceil_mode:
        return room // step + 1
    count = -(-room // step) + 1
    return count - 1 if (count - 1) * step >= size + before else count


def _smoothed(size: int, count: int, align_corners: bool, scale: float | None) -> Tensor:
    """The weights of each of ``count`` results in ``size`` elements: triangles as wide as the scale."""
    if align_corners:
        step = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        step = 1 / scale if scale else size / count
    support = max(step, 1.0)
    center = step * (torch.arange(count).unsqueeze(1) + 0.5)
    place = torch.arange(size)
    first = (center - support + 0.5).to(torch.int64).clamp(min=0)
    last = (center + support + 0.5).to(torch.int64).clamp(max=size)
    weights = (1 - ((place - center + 0.5) / support).abs()).clamp(min=0)
    weights = torch.where((place >= first) & (place < last), weights, 0.0)
    return weights / weights.sum(1, keepdim=True)


@composition(aten._upsample_bilinear2d_aa.default)
def upsample_bilinear_smooth(
    x: Tensor, output_size: Sequence[int], align_corners: bool,
    scales_h: float | None = None, scales_w: float | None = None,
) -> Tensor:  # fmt: skip
    sizes = (*x.shape[-2:], *output_size)
    if x.dtype not in (torch.float32, torch.float64) or not all(isinstance(size, int) for size in sizes):
        raise NotImplementedError
    rows = _smoothed(sizes[0], sizes[2], align_corners, scales_h).to(x.dtype)
    columns = _smoothed(sizes[1], sizes[3], align_corners, scales_w).to(x.dtype)
    return torch.matmul(rows, torch.matmul(x, columns.t()))


# -- tables -------------------------------------------------------------------------------------------------


@composition(aten._embedding_bag_forward_only.default, aten._embedding_bag.default)
def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Sums (mode 0), means (1) or maxima (2) of the rows of each bag; ``padding_idx`` counts as none."""
    if include_last_offset:
        offsets = offsets[:-1]
    bags, width, rows = offsets.shape[0], weight.shape[1], indices.to(torch.int64)
    bag = (torch.arange(rows.shape[0]).unsqueeze(1) >= offsets).to(torch.int64).sum(1) - 1
    counts = torch.ones_like(rows) if padding_idx < 0 else (rows != padding_idx).to(torch.int64)
    sizes = torch.zeros(bags, dtype=torch.int64).scatter_add(0, bag, counts)
    taken = weight[rows]
    if per_sample_weights is not None:
        taken = taken * per_sample_weights.unsqueeze(1)
    where = bag.unsqueeze(1).expand(rows.shape[0], width)
    used = counts.unsqueeze(1) != 0
    if mode == 2:
        low = torch.full((bags, width), -math.inf, dtype=weight.dtype)
        made = low.scatter_reduce(0, where, taken.masked_fill(~used, -math.inf), "amax")
        made = torch.where(sizes.unsqueeze(1) > 0, made, 0.0)
    else:
        nothing = torch.zeros((bags, width), dtype=weight.dtype)
        made = nothing.scatter_add(0, where, torch.where(used, taken, 0.0))
    if mode == 1:
        made = made / sizes.clamp(min=1).unsqueeze(1)
    return made, bag.to(indices.dtype), sizes.to(indices.dtype), sizes.to(indices.dtype)


# -- memory -------------------------------------------------------------------------------------------------


@composition(aten.new_empty_strided.default)
def new_empty_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], **named: Any) -> Tensor:
    return torch.zeros(size, dtype=named.get("dtype") or x.dtype)


@composition(aten.empty_permuted.default)
def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **named: Any) -> Tensor:
    return torch.zeros(size, dtype=named.get("dtype") or torch.get_default_dtype())

"""Prefix scans: running maxima, minima and sums."""

from __future__ import annotations

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.elements import MOST_BITS, isnan, positions
from graphwright.frontends.torch.compositions.registry import Composition, composition

aten = torch.ops.aten


def running(x: Tensor, dim: int, combine: Composition) -> Tensor:
    """The inclusive scan with an associative ``combine``, in log2(n) steps (W. D. Hillis and G. L. Steele,
    "Data parallel algorithms", 1986).
    """
    size, step = x.shape[dim], 1
    if not isinstance(size, int):
        at = positions(x, dim)
        for step in (1 << bit for bit in range(MOST_BITS)):
            before = x.index_select(dim, (at.reshape(-1) - step).clamp(min=0))
            x = torch.where(at < step, x, combine(before, x))
        return x
    while step < size:
        kept, rest = x.narrow(dim, 0, step), x.narrow(dim, step, size - step)
        x = torch.cat([kept, combine(x.narrow(dim, 0, size - step), rest)], dim)
        step *= 2
    return x


def _running_extreme(combine: Composition) -> Composition:
    """A running maximum or minimum, with the index of the last element that equals it."""

    def scan(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        if x.dim() == 0:
            return x.clone(), torch.zeros((), dtype=torch.int64)
        values = running(x, dim, combine)
        hits = (x == values) | isnan(x)
        return values, running(torch.where(hits, positions(x, dim), 0), dim, torch.maximum)

    return scan


composition(aten.cummax.default)(_running_extreme(torch.maximum))
composition(aten.cummin.default)(_running_extreme(torch.minimum))


@composition(aten.logcumsumexp.default)
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    if x.dim() == 0:
        return x.clone()
    sums = running(x.float() if x.dtype in (torch.float16, torch.bfloat16) else x, dim, torch.logaddexp)
    return sums.to(x.dtype)

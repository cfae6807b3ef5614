"""Matrix products with more than two factors, or with a sum."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


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
    product = spread[0] * spread[1] * spread[2]
    return product.sum(list(summed)) if summed else product

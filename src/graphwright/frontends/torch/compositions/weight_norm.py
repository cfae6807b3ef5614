"""Weight normalization: weights as the product of a length and a direction."""

from __future__ import annotations

import torch
from torch import Tensor

from graphwright.frontends.torch.compositions.registry import composition

aten = torch.ops.aten


@composition(aten._weight_norm_interface.default)
def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """The weights v * g / |v|, and the norms |v| along ``dim``, with the shape of ``g``."""
    norms = _sums(v * v, dim).sqrt()
    return v * (g / norms), norms


@composition(aten._weight_norm_interface_backward.default)
def weight_norm_gradients(
    gradient: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    of_lengths = _sums(gradient * v, dim) / norms
    return (g / norms) * (gradient - v * (of_lengths / norms)), of_lengths


def _sums(x: Tensor, dim: int) -> Tensor:
    """The sums over all axes but ``dim``."""
    return x.sum([axis for axis in range(x.dim()) if axis != dim % x.dim()], keepdim=True)

"""Operators that draw random numbers, which are always PyTorch's."""

from __future__ import annotations

import torch
from torch import fx
from torch._ops import HigherOrderOperator


def is_random(node: fx.Node) -> bool:
    """Whether a seed decides what ``node`` gives."""
    if isinstance(node.target, HigherOrderOperator):
        return "rng_state" in str(node.target)
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())

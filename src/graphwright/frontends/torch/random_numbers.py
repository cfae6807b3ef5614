"""Recognizes operators that draw random numbers; they always run in PyTorch."""

from __future__ import annotations

import torch
from torch import fx
from torch._ops import HigherOrderOperator


def is_random(node: fx.Node) -> bool:
    """Whether the results of ``node`` depend on a random seed."""
    if isinstance(node.target, HigherOrderOperator):
        return "rng_state" in str(node.target)
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())

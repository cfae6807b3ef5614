"""The arguments of PyTorch's higher-order operators, which have graphs as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from torch import fx
from torch._ops import HigherOrderOperator

from graphwright.records import dataclass


@dataclass(frozen=True)
class Parameter:
    """A parameter, with the same attributes as an argument in a PyTorch schema."""

    name: str
    default_value: Any = None


_PARAMETERS: Final = {
    "cond": ("pred", "true_fn", "false_fn", "operands"),
    "while_loop": ("cond_fn", "body_fn", "carried_inputs", "additional_inputs"),
    "scan": ("combine_fn", "init", "xs", "additional_inputs"),
    "map_impl": ("f", "xs", "pos_args"),
}
_WRAPPERS: Final = {
    "wrap": (0, 1),
    "wrap_with_set_grad_enabled": (1, 2),
    "wrap_with_autocast": (4, 5),
    "wrap_activation_checkpoint": (0, 1),
    "tag_activation_checkpoint": (0, 1),
    "invoke_subgraph": (0, 2),
}
"""Operators that only call a graph: the position of the graph, and of the first argument of the graph."""


def parameters_of(target: Any) -> Sequence[Any]:
    """The parameters of an operator, each with ``name`` and ``default_value``."""
    if not isinstance(target, HigherOrderOperator):
        return list(target._schema.arguments)
    return [*map(Parameter, _PARAMETERS[str(target)]), Parameter("mutated_arg_indices", "")]


def wrapped(node: fx.Node) -> tuple[Any, Sequence[Any]] | None:
    """The graph that ``node`` calls, and the arguments of the graph; None if ``node`` is not such a
    wrapper.
    """
    if not isinstance(node.target, HigherOrderOperator) or str(node.target) not in _WRAPPERS:
        return None
    graph, first = _WRAPPERS[str(node.target)]
    return node.args[graph], node.args[first:]

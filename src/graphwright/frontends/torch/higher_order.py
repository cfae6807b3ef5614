"""PyTorch's higher-order operators, whose arguments are graphs: the names of the arguments of those that have
an op, and what those take that only wrap a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from torch import fx
from torch._ops import HigherOrderOperator

from graphwright.records import dataclass


@dataclass(frozen=True)
class Parameter:
    """As an argument of a schema of PyTorch's."""

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
"""Where the graph stands among the arguments, and where its own begin."""


def parameters_of(target: Any) -> Sequence[Any]:
    """The arguments of an operator, each with ``name`` and ``default_value``."""
    if not isinstance(target, HigherOrderOperator):
        return list(target._schema.arguments)
    return [*map(Parameter, _PARAMETERS[str(target)]), Parameter("mutated_arg_indices", "")]


def wrapped(node: fx.Node) -> tuple[Any, Sequence[Any]] | None:
    """The graph that ``node`` only wraps, and its arguments; None for other nodes."""
    if not isinstance(node.target, HigherOrderOperator) or str(node.target) not in _WRAPPERS:
        return None
    graph, first = _WRAPPERS[str(node.target)]
    return node.args[graph], node.args[first:]

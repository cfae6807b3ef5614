"""How the arguments and results of a captured graph become inputs and outputs of its module."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from graphwright.frontends.torch.types import array_from, has_elements, tensor_from
from graphwright.ir.op import Array
from graphwright.ir.symbols import Dim, Expr, evaluate, names_in
from graphwright.records import dataclass, field


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The order of axes that undoes ``order``."""
    return tuple(map(int, np.argsort(order)))


@dataclass(frozen=True)
class Input:
    """An input of the module: argument ``position`` of the graph, its axes in ``order``; ``order`` None: an
    array without elements whose first size is the argument, a number.
    """

    position: int
    name: str
    order: tuple[int, ...] | None
    dtype: torch.dtype | None
    """Of the argument; None for a number."""

    def takes(self, argument: Any) -> bool:
        """Whether the module can be fed ``argument``: a number that is no size, a tensor without elements of
        its own, or one of another type than PyTorch states (what an operator that it runs gives) cannot be.
        """
        if self.order is None:
            return bool(argument >= 0)
        return has_elements(argument) and argument.dtype == self.dtype

    def array(self, argument: Any) -> Array:
        """What the module is fed for ``argument``."""
        if self.order is None:
            return np.empty((argument, 0), np.uint8)
        return array_from(argument.permute(self.order))

    def write(self, array: Array, argument: torch.Tensor) -> None:
        """Let ``argument`` have the elements of ``array``, which may be its own memory."""
        assert self.order is not None
        made, held = tensor_from(array), argument.detach().permute(self.order)
        if made.data_ptr() != held.data_ptr():
            held.copy_(made)


@dataclass(frozen=True)
class Argument:
    """Stands for an argument itself."""

    position: int


@dataclass(frozen=True)
class Output:
    """A result of the graph: an output of the module, whose axes ``order`` names; or a number, a dim or an
    argument.
    """

    order: tuple[int, ...] | None
    plain: Any = None

    @cached_property
    def place(self) -> tuple[int, ...]:
        """Where each axis of the result stands in the module's output."""
        return inverse(self.order or ())

    @property
    def is_as_it_lies(self) -> bool:
        """Whether the result is the module's output, its axes in order."""
        return self.order is not None and self.order == tuple(range(len(self.order)))


@dataclass
class Interface:
    """The arguments and results of a graph."""

    inputs: list[Input] = field(default_factory=list)
    """Of the module, in their order."""
    outputs: list[Output] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    """Arguments that a run changes, by position: states of the module."""
    symbols: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """Where the value of a symbol stands: an argument, and its axis, or None where it is a size."""

    def results(self, made: Sequence[torch.Tensor], arguments: Sequence[Any]) -> list[Any]:
        """The graph's results, of the outputs of its module."""
        left = iter(made)
        return [
            self._plain(each.plain, arguments) if each.order is None else next(left).permute(each.place)
            for each in self.outputs
        ]

    def _plain(self, plain: Any, arguments: Sequence[Any]) -> Any:
        """A result that is no output: a size in numbers, an argument, anything else as it is."""
        if isinstance(plain, Argument):
            return arguments[plain.position]
        return self.number(plain, arguments) if isinstance(plain, Expr) else plain

    def number(self, size: Dim, arguments: Sequence[Any]) -> int:
        """The value of a size of the graph for these arguments."""
        if isinstance(size, int):
            return size
        sizes = {}
        for name in names_in(size):
            position, axis = self.symbols[name]
            sizes[name] = int(arguments[position] if axis is None else arguments[position].shape[axis])
        return evaluate(size, sizes)

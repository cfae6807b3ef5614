"""The conversion of arguments and results of a graph to inputs and outputs of its module."""

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
    """The inverse of the permutation ``order``."""
    return tuple(map(int, np.argsort(order)))


@dataclass(frozen=True)
class Input:
    """An input of the module: argument ``position`` of the graph, with its axes in ``order``.

    If ``order`` is None, the argument is a number, and the input is an empty array whose first size is the
    number.
    """

    position: int
    name: str
    order: tuple[int, ...] | None
    dtype: torch.dtype | None
    """The dtype of the argument; None for a number."""

    def accepts(self, argument: Any) -> bool:
        """Whether the module can run on ``argument``: a number >= 0, or a tensor in memory with the dtype
        that PyTorch inferred.
        """
        if self.order is None:
            return bool(argument >= 0)
        return has_elements(argument) and argument.dtype == self.dtype

    def array(self, argument: Any) -> Array:
        """The array of the input for ``argument``."""
        if self.order is None:
            return np.empty((argument, 0), np.uint8)
        return array_from(argument.permute(self.order))

    def write(self, array: Array, argument: torch.Tensor) -> None:
        """Copies ``array`` to ``argument``, unless it is the memory of ``argument``."""
        assert self.order is not None
        source, target = tensor_from(array), argument.detach().permute(self.order)
        if source.data_ptr() != target.data_ptr():
            target.copy_(source)


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` as no view to autograd; batches of gradients, which cannot be detached, as they are."""
    return tensor.detach() if torch._C._has_storage(tensor) else tensor


@dataclass(frozen=True)
class Argument:
    """A result of a graph that is one of its arguments."""

    position: int


@dataclass(frozen=True)
class Output:
    """A result of the graph: an output of the module with axes in ``order``, or, if ``order`` is None, the
    number, dim or argument ``plain``.
    """

    order: tuple[int, ...] | None
    plain: Any = None

    @cached_property
    def output_axes(self) -> tuple[int, ...]:
        """The axis of the output for each axis of the result."""
        return inverse(self.order or ())

    @property
    def is_in_order(self) -> bool:
        """Whether the result is an output of the module, without a permutation."""
        return self.order is not None and self.order == tuple(range(len(self.order)))


@dataclass
class Interface:
    """The arguments and results of a graph."""

    inputs: list[Input] = field(default_factory=list)
    """The inputs of the module, in order."""
    outputs: list[Output] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    """The positions of arguments that a run changes; they are states of the module."""
    symbols: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """The argument and axis from which the value of a symbol is read; axis None: the argument is the
    value.
    """

    def outputs_of(self, results: Sequence[Any]) -> list[torch.Tensor]:
        """The outputs of the module for the results of the graph: the inverse of :meth:`results`."""
        pairs = zip(self.outputs, results, strict=True)
        return [result.permute(each.order) for each, result in pairs if each.order is not None]

    def results(self, tensors: Sequence[torch.Tensor], arguments: Sequence[Any]) -> list[Any]:
        """The results of the graph, given the outputs of the module. They are detached, so that autograd does
        not treat them as views: it rejects writes to views that a backward graph belongs to.
        """
        left = iter(tensors)
        return [
            self._computed(each.plain, arguments)
            if each.order is None
            else _detached(next(left).permute(each.output_axes))
            for each in self.outputs
        ]

    def _computed(self, plain: Any, arguments: Sequence[Any]) -> Any:
        """The value of a result that is not an output: an argument, the number of a size, or a constant."""
        if isinstance(plain, Argument):
            return arguments[plain.position]
        return self.number(plain, arguments) if isinstance(plain, Expr) else plain

    def number(self, size: Dim, arguments: Sequence[Any]) -> int:
        """The value of ``size`` for these arguments."""
        if isinstance(size, int):
            return size
        sizes = {}
        for name in names_in(size):
            position, axis = self.symbols[name]
            sizes[name] = int(arguments[position] if axis is None else arguments[position].shape[axis])
        return evaluate(size, sizes)

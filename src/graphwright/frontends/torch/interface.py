"""The conversion of arguments and results of a graph to inputs and outputs of its module."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from graphwright.frontends.torch.types import array_from, complex_from, has_elements, is_lazy, tensor_from
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

    @property
    def is_complex(self) -> bool:
        """Whether the argument is complex; see :func:`.types.stored_type_from`."""
        return self.dtype is not None and self.dtype.is_complex

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
        source, target = (
            (complex_from if self.is_complex else tensor_from)(array),
            argument.detach().permute(self.order),
        )
        if source.data_ptr() != target.data_ptr() or is_lazy(target):
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
    is_complex: bool = False
    """Whether the result is complex; see :func:`.types.stored_type_from`."""
    conjugated: bool = False
    """The result is conjugated when it is read; the output is not conjugated."""
    negated: bool = False
    """The result is negated when it is read; the output is not negated."""

    @cached_property
    def output_axes(self) -> tuple[int, ...]:
        """The axis of the output for each axis of the result."""
        return inverse(self.order or ())

    @property
    def is_in_order(self) -> bool:
        """Whether the result is an output of the module, without a permutation."""
        is_direct = not self.conjugated and not self.negated
        return is_direct and self.order is not None and self.order == tuple(range(len(self.order)))

    def restored(self, tensor: torch.Tensor) -> torch.Tensor:
        """The result for a tensor with the elements of the output."""
        return self._lazy(_detached(tensor.permute(self.output_axes)))

    def output_of(self, result: torch.Tensor) -> torch.Tensor:
        """The inverse of :meth:`restored`."""
        assert self.order is not None
        return self._lazy(result).permute(self.order)

    def _lazy(self, tensor: torch.Tensor) -> torch.Tensor:
        conjugated = tensor.conj() if self.conjugated else tensor
        return torch._neg_view(conjugated) if self.negated else conjugated


@dataclass
class Interface:
    """The arguments and results of a graph."""

    inputs: list[Input] = field(default_factory=list)
    """The inputs of the module, in order."""
    outputs: list[Output] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    """The positions of arguments that a run changes; they are states of the module."""
    is_lazy: bool = False
    """Whether an argument is negated or conjugated when it is read."""
    symbols: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """The argument and axis from which the value of a symbol is read; axis None: the argument is the
    value.
    """

    def outputs_of(self, results: Sequence[Any]) -> list[torch.Tensor]:
        """The outputs of the module for the results of the graph: the inverse of :meth:`results`."""
        pairs = zip(self.outputs, results, strict=True)
        return [each.output_of(result) for each, result in pairs if each.order is not None]

    def tensors(self, arrays: Sequence[Array]) -> list[torch.Tensor]:
        """The outputs of the module as tensors, given as arrays."""
        made = (each for each in self.outputs if each.order is not None)
        return [
            complex_from(array) if each.is_complex else tensor_from(array)
            for each, array in zip(made, arrays, strict=True)
        ]

    def results(self, tensors: Sequence[torch.Tensor], arguments: Sequence[Any]) -> list[Any]:
        """The results of the graph, given the outputs of the module. They are detached, so that autograd does
        not treat them as views: it rejects writes to views that a backward graph belongs to.
        """
        left = iter(tensors)
        return [
            self._computed(each.plain, arguments) if each.order is None else each.restored(next(left))
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

"""The parameters of a graph that are constants of its models, and snapshots of them that detect changes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from graphwright._native import sample_memory

MAX_CHANGES = 2
"""After this number of changes, a parameter becomes an input instead of a constant."""


class Snapshot:
    """The packed tensors, with the addresses and versions that they had. The snapshot keeps their memory
    alive, so that no other tensor gets the same address, but not the tensors: ``forget`` is called when the
    first of them is freed.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], forget: Callable[[], object]) -> None:
        self._tensors = [weakref.ref(each, lambda _: forget()) for each in tensors]
        self._memory = [each.untyped_storage() for each in tensors]
        self._states = [_state(each) for each in tensors]

    def changed(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        """The numbers of the ``tensors`` that were replaced or changed."""
        return [
            k
            for k, (known, tensor) in enumerate(zip(self._tensors, tensors, strict=True))
            if known() is not tensor or self._states[k] != _state(tensor)
        ]

    def has_any(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether one of ``tensors`` was packed."""
        wanted = set(map(id, tensors))
        return any(known is not None and id(known) in wanted for known in (each() for each in self._tensors))

    def is_stale(self) -> bool:
        """Whether no later call can have these parameters."""
        return any(
            known is None or _state(known) != state
            for known, state in zip((each() for each in self._tensors), self._states, strict=True)
        )


class FrozenParameters:
    """The arguments of a graph that are parameters or buffers, and constants of its models. Those that change
    too often become inputs.
    """

    def __init__(self, positions: Iterable[int]) -> None:
        """``positions`` are those of the arguments."""
        self._changes = dict.fromkeys(sorted(positions), 0)
        self._last: list[weakref.ref[torch.Tensor]] = []
        """The tensors that were packed most recently."""

    def __iter__(self) -> Iterator[int]:
        return iter(self._changes)

    def __contains__(self, position: int) -> bool:
        return position in self._changes

    def of(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """Their tensors among ``arguments``."""
        return [arguments[position] for position in self]

    def set_packed(self, tensors: Sequence[torch.Tensor]) -> None:
        """Records that ``tensors`` were packed for a model."""
        self._last = [weakref.ref(each) for each in tensors]

    def replaced(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        """The numbers of the ``tensors`` that replaced freed parameters; others belong to another module."""
        return [k for k, (last, _) in enumerate(zip(self._last, tensors, strict=False)) if last() is None]

    def count_changes(self, numbers: Sequence[int]) -> list[int]:
        """Counts a change of the parameters with these ``numbers``. Returns the positions of those that now
        changed too often.
        """
        positions = list(self)
        changed = [positions[number] for number in numbers]
        for position in changed:
            self._changes[position] += 1
        return [position for position in changed if self._changes[position] >= MAX_CHANGES]

    def unfreeze(self, positions: Iterable[int]) -> None:
        """Makes these parameters inputs of later models."""
        for position in positions:
            del self._changes[position]
        self._last.clear()


def key_of(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """A key that identifies a set of parameters among all that are alive."""
    return tuple(map(id, tensors))


def sampled_bytes(tensor: torch.Tensor) -> int:
    """The number of contiguous bytes of the elements of a tensor; 0 if there are gaps."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return 0
        expected *= size
    return tensor.numel() * tensor.element_size()


def _state(tensor: torch.Tensor) -> tuple[Any, ...]:
    """A state that differs if the tensor was changed. It contains a sample of the elements, to detect writes
    that do not change the version.
    """
    address = tensor.data_ptr()
    sample = sample_memory(address, sampled_bytes(tensor))
    return address, tensor._version, tensor.shape, tensor.stride(), tensor.dtype, sample

"""Parameters as they were when they became constants of a program."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphwright._native import sample_memory


class Snapshot:
    """Which tensors were packed, where their elements lay, and of which version they were.

    The memory is held, so that no other tensor's lies in the same place, and the tensors are not: with the
    first of them that ends, ``forget`` is called.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], forget: Callable[[], object]) -> None:
        self._tensors = [weakref.ref(each, lambda _: forget()) for each in tensors]
        self._memory = [each.untyped_storage() for each in tensors]
        self._states = [_state(each) for each in tensors]

    def changed(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        """Which of ``tensors``, by number, are others or were changed."""
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
        """Whether no call can have these parameters again."""
        return any(
            known is None or _state(known) != state
            for known, state in zip((each() for each in self._tensors), self._states, strict=True)
        )


def key_of(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Tells one set of parameters from all others that are alive."""
    return tuple(map(id, tensors))


def sampled_bytes(tensor: torch.Tensor) -> int:
    """How many bytes of a tensor's elements lie together from its first on: 0 where there are gaps."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return 0
        expected *= size
    return tensor.numel() * tensor.element_size()


def _state(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What is another if the tensor was changed; a sample of its elements shows what writes past versions."""
    place = tensor.data_ptr()
    sample = sample_memory(place, sampled_bytes(tensor))
    return place, tensor._version, tensor.shape, tensor.stride(), tensor.dtype, sample

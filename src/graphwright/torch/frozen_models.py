"""The models of a graph that contain its parameters as constants. Modules that share a graph have models with
their own parameters.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

import torch

from graphwright._native import TensorDispatch, TensorFastPath
from graphwright.package.weights import Weights
from graphwright.records import dataclass
from graphwright.runtime.model import Model
from graphwright.torch.parameters import Snapshot, key_of


@dataclass(frozen=True)
class FrozenModel:
    """A model that contains parameters as constants, with their values at that time."""

    model: Model
    parameters: Snapshot
    fast_path: TensorFastPath | None
    """The fast path for calls with the same parameters, if the model is one program."""


class FrozenModels:
    """The models of one graph by their parameters. ``dispatch`` gets the fast paths of all of them."""

    def __init__(self, dispatch: TensorDispatch) -> None:
        self._dispatch = dispatch
        self._models: dict[tuple[int, ...], FrozenModel] = {}
        _OF_ALL_GRAPHS.add(self)

    def __len__(self) -> int:
        return len(self._models)

    def find(self, tensors: Sequence[torch.Tensor]) -> FrozenModel | None:
        """The model of these parameters, which may have changed since."""
        return self._models.get(key_of(tensors))

    def add(self, tensors: Sequence[torch.Tensor], frozen: FrozenModel) -> None:
        """Adds the model of these parameters."""
        self._models[key_of(tensors)] = frozen
        self._set_paths()

    def clear(self) -> None:
        """Drops all models."""
        self._models.clear()
        self._set_paths()

    def on_free(self, tensors: Sequence[torch.Tensor]) -> Callable[[], None]:
        """A function that drops the model of these parameters, for when one of them is freed. It takes no
        lock, as it can interrupt any code of a thread.
        """
        models, key = weakref.ref(self), key_of(tensors)

        def forget() -> None:
            held = models()
            if held is not None:
                held._forget(key)

        return forget

    def drop_stale(self) -> None:
        """Drops the models whose parameters were changed."""
        for key, held in tuple(self._models.items()):
            if held.parameters.is_stale():
                self._forget(key)

    def weights_with(self, tensors: Sequence[torch.Tensor]) -> list[Weights]:
        """The weights of models that contain one of ``tensors``, to which more weights can be added."""
        found = [held.model.package for held in self._models.values() if held.parameters.has_any(tensors)]
        return [each.weights for each in found if each.weights.region is not None]

    def _forget(self, key: tuple[int, ...]) -> None:
        if self._models.pop(key, None) is not None:
            self._set_paths()

    def _set_paths(self) -> None:
        paths = [held.fast_path for held in tuple(self._models.values())]
        self._dispatch.set_paths([each for each in paths if each is not None])


_OF_ALL_GRAPHS: weakref.WeakSet[FrozenModels] = weakref.WeakSet()


def drop_stale_models() -> None:
    """Drops the models of all graphs whose parameters were changed."""
    for models in tuple(_OF_ALL_GRAPHS):
        models.drop_stale()


def weights_with(tensors: Sequence[torch.Tensor]) -> Weights | None:
    """The largest weights among graphs that contain one of ``tensors``: equally packed tensors are then
    stored once.
    """
    found = [weights for models in tuple(_OF_ALL_GRAPHS) for weights in models.weights_with(tensors)]
    return max(found, key=lambda weights: len(weights.data), default=None)

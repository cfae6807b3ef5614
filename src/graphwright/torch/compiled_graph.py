"""A graph of ``torch.compile`` that graphwright runs whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import increment_version

from graphwright._native import TensorEntry
from graphwright.api import compile
from graphwright.config import Options
from graphwright.frontends.torch.graph import Reading
from graphwright.frontends.torch.interface import Input
from graphwright.frontends.torch.types import dlpack_type, tensor_from
from graphwright.records import dataclass
from graphwright.runtime.cpu import Cpu
from graphwright.runtime.model import Model
from graphwright.torch.reports import GraphReport

MAX_OWNERS = 64
"""Modules that share a graph, of which each has a model with its own parameters."""
MAX_CHANGES = 2
"""After so many changes a parameter is no constant any more."""


@dataclass
class _Frozen:
    """A model with parameters in it, as they were."""

    model: Model
    versions: tuple[int, ...]
    entry: TensorEntry | None
    """Serves calls with the same parameters, where the model is one program."""


class CompiledGraph(torch.nn.Module):
    """Compiled at the first call, which has the parameters: they become constants, which kernels take packed.

    Before each run the memory and the version of each parameter are compared with what they were, so that
    one that was loaded, replaced or written to is packed again.
    """

    def __init__(
        self, reading: Reading, options: Options, frozen: frozenset[int], single: bool, report: GraphReport
    ) -> None:
        """``frozen``: arguments that are parameters or buffers; ``single``: a graph of one result."""
        super().__init__()
        self._module, self._interface = reading.module, reading.interface
        self._options, self._single, self._report = options, single, report
        self._frozen = sorted(frozen & {each.position for each in reading.interface.inputs})
        self._changes = dict.fromkeys(self._frozen, 0)
        self._models: dict[tuple[int, ...], _Frozen] = {}
        self._entry: TensorEntry | None = None
        """Of the parameters that served last."""
        self._is_plain = all(each.is_as_it_lies for each in self._interface.outputs)

    def forward(self, *arguments: Any) -> Any:
        made = None if self._entry is None else self._entry(arguments)
        if made is None:
            held = self._held(arguments)
            self._entry = held.entry
            made = self._run(held.model, arguments)
        if self._interface.changed:
            increment_version([arguments[k] for k in self._interface.changed])
        results = made if self._is_plain else self._interface.results(made, arguments)
        return results[0] if self._single else results

    def _run(self, model: Model, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """A run on arguments that lie in any way; those that it changes are written where they lie."""
        fed = self._fed()
        arrays = [each.array(arguments[each.position]) for each in fed]
        made = model.executor.run(arrays, None, model.threads)
        for each, array in zip(fed, arrays, strict=True):
            if each.position in self._interface.changed:
                each.write(array, arguments[each.position])
        return list(map(tensor_from, made))

    def _fed(self) -> list[Input]:
        return [each for each in self._interface.inputs if each.position not in self._changes]

    def _held(self, arguments: tuple[Any, ...]) -> _Frozen:
        frozen = [arguments[k] for k in self._frozen]
        if any(tensor.is_inference() for tensor in frozen):  # whose versions no one counts
            self._thaw([k for k in self._frozen if arguments[k].is_inference()])
            return self._held(arguments)
        owner = tuple(tensor.data_ptr() for tensor in frozen)
        versions = tuple(tensor._version for tensor in frozen)
        known = self._models.get(owner)
        if known is not None and known.versions == versions:
            return known
        if known is not None:
            self._note_changes(known.versions, versions)
            return self._held(arguments)
        if len(self._models) >= MAX_OWNERS:
            del self._models[next(iter(self._models))]
        model = self._compiled(arguments)
        self._models[owner] = made = _Frozen(model, versions, self._entry_of(model, arguments))
        return made

    def _note_changes(self, before: Sequence[int], now: Sequence[int]) -> None:
        changed = [k for k, a, b in zip(self._frozen, before, now, strict=True) if a != b]
        for k in changed:
            self._changes[k] += 1
        self._models.clear()
        self._thaw([k for k in changed if self._changes[k] >= MAX_CHANGES])

    def _thaw(self, positions: Sequence[int]) -> None:
        """Let these parameters be inputs from now on."""
        for k in positions:
            self._frozen.remove(k)
            del self._changes[k]
            self._models.clear()

    def _compiled(self, arguments: Sequence[Any]) -> Model:
        constants = {
            each.name: each.array(arguments[each.position])
            for each in self._interface.inputs
            if each.position in self._changes
        }
        with self._report.timed():
            self._report.compilations += 1
            return compile(self._module, constants=constants, options=self._options)

    def _entry_of(self, model: Model, arguments: tuple[Any, ...]) -> TensorEntry | None:
        if not isinstance(model.executor, Cpu):
            return None
        inputs = [
            (each.position, *dlpack_type(spec.dtype), each.order)
            for each, spec in zip(self._fed(), model.entry.inputs, strict=True)
        ]
        outputs = [dlpack_type(spec.dtype) for spec in model.outputs]
        return model.executor.tensor_path(torch.Tensor, inputs, outputs, self._frozen, arguments)

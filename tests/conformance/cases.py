"""The cases: models, inputs, expected outputs, and tolerances."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
FOLDERS = ("simple", "pytorch-operator", "pytorch-converted")
"""Of the wheel's data those that hold whole models with inputs and outputs."""
RTOL, ATOL = 1e-3, 1e-7
"""What onnx's runner of backend tests allows models that say nothing themselves."""


@dataclass(frozen=True)
class Case:
    """A model with pairs of inputs (in the order of those without an initializer) and outputs."""

    name: str
    model: onnx.ModelProto
    data: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float = RTOL
    atol: float = ATOL

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs that are fed."""
        given = {tensor.name for tensor in self.model.graph.initializer}
        return [info.name for info in self.model.graph.input if info.name not in given]


@cache
def node_cases() -> tuple[Case, ...]:
    """All node cases of the package. Collecting them takes some seconds, because it computes their data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return tuple(
        Case(case.name, case.model, _values(case.data_sets), case.rtol, case.atol)
        for case in found
        if case.model is not None
    )


@cache
def stored_cases() -> tuple[Case, ...]:
    """The models in the wheel's folders."""
    return tuple(
        _stored(kind, folder)
        for kind in FOLDERS
        for folder in sorted((DATA / kind).iterdir())
        if (folder / "model.onnx").exists()
    )


def all_cases(words: Sequence[str] = ()) -> list[Case]:
    """Every case, or those whose names contain one of ``words``."""
    cases = [*node_cases(), *stored_cases()]
    return [case for case in cases if not words or any(word in case.name for word in words)]


def _values(data: Sequence[tuple[Any, Any]] | None) -> list[tuple[list[Any], list[Any]]]:
    return [([_value(x) for x in inputs], [_value(y) for y in outputs]) for inputs, outputs in data or ()]


def _value(given: Any) -> Any:
    """An array, a list of some, or None."""
    if given is None:
        return None
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, onnx.SequenceProto):
        return numpy_helper.to_list(given)
    if isinstance(given, onnx.OptionalProto):
        return numpy_helper.to_optional(given)
    if isinstance(given, list | tuple):
        return [_value(item) for item in given]
    array = np.asarray(given)
    return array.astype(object) if array.dtype.kind in "SU" else array


def _stored(kind: str, folder: Path) -> Case:
    model = onnx.load(folder / "model.onnx")
    case = Case(f"{kind}/{folder.name}", model, [])
    fed = {info.name: info for info in model.graph.input}
    data = [
        (
            list(_files(data_set, "input", [fed[name] for name in case.inputs])),
            list(_files(data_set, "output", model.graph.output)),
        )
        for data_set in sorted(folder.glob("test_data_set_*"))
    ]
    return Case(case.name, model, data)


def _files(folder: Path, kind: str, infos: Sequence[onnx.ValueInfoProto]) -> Iterator[Any]:
    messages = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    for number, info in enumerate(infos):
        message = messages.get(info.type.WhichOneof("value") or "", onnx.TensorProto)()
        message.ParseFromString((folder / f"{kind}_{number}.pb").read_bytes())
        yield _value(message)

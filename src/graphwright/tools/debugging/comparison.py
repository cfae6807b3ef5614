"""Compares the values of two runs of a model by name."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from graphwright.errors import Diagnostic
from graphwright.ir.op import Array
from graphwright.records import dataclass
from graphwright.tools.check import EvaluationError, distance
from graphwright.tools.debugging.program_values import is_number
from graphwright.tools.debugging.steps import StepWalk
from graphwright.tools.debugging.subject import Subject, evaluated
from graphwright.tools.debugging.submodel import read_onnx
from graphwright.tools.measuring.engines import start

OURS: Final = "graphwright"
ONNXRUNTIME: Final = "onnxruntime"
REFERENCE: Final = "fp64"


@dataclass(frozen=True)
class Values:
    """The intermediate values of a run in the order of computation, followed by the outputs."""

    arrays: Mapping[str, Array]
    outputs: frozenset[str]


@dataclass(frozen=True)
class Difference:
    """The difference of two values with the same name, ``relative`` to the largest magnitude of the
    second.
    """

    name: str
    first: Array
    second: Array
    absolute: float
    relative: float


def values_of_subject(subject: Subject) -> Values:
    """The values that tasks of a native run write to memory, and its outputs."""
    walks = [StepWalk(program) for program in subject.programs]
    inner = {result.value.name: result.got for walk in walks for result in walk}
    names = [spec.name for spec in subject.model.outputs]
    outputs = dict(zip(names, subject.outputs(), strict=True))
    return Values({**inner, **_tensors(outputs)}, frozenset(outputs))


def values_of_peer(engine: str, path: Path, feeds: Mapping[str, Any], wanted: Sequence[str]) -> Values:
    """The values named ``wanted``, as far as ``engine`` can return them for the ONNX model in a file, and its
    outputs. Raises EngineError, EvaluationError, ModelError.
    """
    proto = read_onnx(path)
    outputs = frozenset(info.name for info in proto.graph.output)
    if engine == REFERENCE:
        return Values(evaluated(proto, feeds), outputs)
    inner = {name for node in proto.graph.node for name in node.output} - outputs
    names = [name for name in wanted if name in inner]
    return Values(_tensors(_run_widened(engine, proto, feeds, names)), outputs)


def _run_widened(
    engine: str, proto: onnx.ModelProto, feeds: Mapping[str, Any], names: Sequence[str]
) -> Mapping[str, Any]:
    """The outputs of a model to which the intermediate values ``names`` are added as outputs."""
    widened = onnx.ModelProto()
    widened.CopyFrom(proto)
    widened.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    with tempfile.TemporaryDirectory(prefix="graphwright-") as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(widened, str(path))
        run = start(engine, path, 1)
        try:
            return run(feeds)
        except Exception as error:  # other engines raise exceptions of their own types
            raise EvaluationError(Diagnostic("engine", f"{engine} cannot run it: {error}")) from error


def _tensors(values: Mapping[str, Any]) -> dict[str, Array]:
    return {name: array for name, array in values.items() if is_number(array)}


def differences(first: Values, second: Values) -> list[Difference]:
    """The differences of all values that both runs have, in the order of the first run."""
    return [
        _difference(name, array, second.arrays[name])
        for name, array in first.arrays.items()
        if name in second.arrays
    ]


def _difference(name: str, first: Array, second: Array) -> Difference:
    if first.shape != second.shape:
        return Difference(name, first, second, np.inf, np.inf)
    with np.errstate(all="ignore"):
        apart = np.abs(first.astype(np.complex128) - second.astype(np.complex128))
    absolute = float(apart[np.isfinite(apart)].max(initial=0.0))
    return Difference(name, first, second, absolute, distance(first, second).most)


def first_beyond(found: Sequence[Difference], limit: float) -> Difference | None:
    """The first difference above the tolerance."""
    return next((each for each in found if not each.relative <= limit), None)

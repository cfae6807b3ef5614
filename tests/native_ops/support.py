"""One model of all samples of an op, so that its kernels are compiled together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphwright as gw
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Module, Value
from graphwright.ir.op import Sample
from graphwright.ir.symbols import substitute, symbol
from graphwright.ir.types import TensorType
from graphwright.kernels.select import Selection, host_steps
from tests.executables import host_program
from tests.ops.support import arrays_of, bindings, bound_op, run_reference

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Outcome:
    """The results of a sample, the expected ones, and why it ran on the host; empty if it did not."""

    actual: tuple[Array, ...]
    expected: tuple[Array, ...]
    host: str


def run_samples(samples: Sequence[tuple[int, Sample]]) -> dict[int, Outcome]:
    """Compiles ``samples``, each with its number, as one model on the CPU, and runs it once."""
    module = Module()
    types = {
        f"s{k}_{p}": _renamed(a.type, k, s)
        for k, s in samples
        for p, a in enumerate(s.inputs)
        if a is not None and a.values is None
    }
    b, values = new_main_graph(module, list(types.items()))
    inputs = dict(zip(types, values, strict=True))
    arrays = {k: arrays_of(sample) for k, sample in samples}
    counts = {k: _append(b, k, sample, inputs, arrays[k]) for k, sample in samples}
    reasons: list[tuple[str, str]] = []

    def observe(stage: str, made: object) -> None:
        if stage == "select" and isinstance(made, Selection):
            reasons.extend((node.location, reason) for node, reason in host_steps(made.steps))

    model = gw.compile(module, observe=observe)
    feeds = [arrays[int(name[1:].split("_")[0])][int(name.split("_")[1])] for name in types]
    results = iter(model(*feeds))
    program = host_program(model.package)
    reasons += [(host.node, host.reason) for host in ([] if program is None else program.hosts())]
    outcomes = {}
    for k, sample in samples:
        expected = run_reference(bound_op(sample.op, bindings(sample)), arrays[k])
        actual = tuple(_array(next(results)) for _ in range(counts[k]))
        host = "; ".join(reason for place, reason in reasons if f"sample{k}" in place.split(" + "))
        outcomes[k] = Outcome(actual, expected, host)
    assert model.stats()["host_calls"] == len(reasons)
    return outcomes


def _array(result: Any) -> Any:
    """``result`` as an array; a container as it is."""
    return result if result is None or isinstance(result, list | dict) else np.asarray(result)


def _append(
    b: Builder, k: int, sample: Sample, inputs: dict[str, Value], arrays: Sequence[Array | None]
) -> int:
    """Append the node of a sample and its outputs; how many these are."""
    operands = [
        None if a is None else b.const(array) if a.values is not None else inputs[f"s{k}_{p}"]
        for p, (a, array) in enumerate(zip(sample.inputs, arrays, strict=True))
    ]
    node = b.node(bound_op(sample.op, _names(k, sample)), *operands)
    node.sources = (f"sample{k}",)
    b.graph.set_outputs([*b.graph.outputs, *node.outputs])
    return len(node.outputs)


def _names(k: int, sample: Sample) -> dict[str, Any]:
    """The sample's symbols under names of their own."""
    return {name: symbol(f"{name}{k}") for name in bindings(sample)}


def _renamed(type: TensorType, k: int, sample: Sample) -> TensorType:
    return TensorType(type.dtype, tuple(substitute(d, _names(k, sample)) for d in type.dims))

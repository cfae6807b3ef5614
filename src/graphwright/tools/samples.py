"""Tests samples of ops: runs their kernels on one thread and on several, and compares with the NumPy
references.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from graphwright.api import compile
from graphwright.config import Options
from graphwright.errors import GraphwrightError, ModelError
from graphwright.ir.build import new_main_graph
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Module, Role, Signature
from graphwright.ir.inference.infer import evaluate
from graphwright.ir.op import Arg, Op, Sample
from graphwright.ir.symbols import evaluate as number_of
from graphwright.records import dataclass, replace
from graphwright.tools.check import distance

Array = np.ndarray[Any, Any]
THREADS: Final = (1, 2, 3)
SIZES: Final = ((3, 5, 4, 7), (1, 1, 1, 1), (67, 130, 9, 33))
"""The values of the symbols of a sample, in order of their names, in each round."""
TOLERANCE: Final = {"f16": 1e-3, "bf16": 1e-2, "f32": 1e-5, "f64": 1e-10}
"""The largest error relative to the largest magnitude of an output, by its dtype; others must be exact."""


@dataclass(frozen=True)
class SampleResult:
    """The result of a sample: the kernel that ran it, and the ``fault``, which is empty if it passed."""

    sample: Sample
    shapes: str
    ran: str
    fault: str = ""


def run_samples(op: type[Op], options: Options) -> Iterator[SampleResult]:
    """Runs every sample of ``op``, each for several sizes of its symbols."""
    for sample in op.samples:
        names = sorted(symbols_in(given.type for given in sample.inputs if given))
        for sizes in SIZES if names else SIZES[:1]:
            bound = {name: sizes[k % len(sizes)] for k, name in enumerate(names)}
            yield _result(sample, bound, options)


def _result(sample: Sample, sizes: Mapping[str, int], options: Options) -> SampleResult:
    seed = np.random.default_rng(zlib.crc32(str(sample.op).encode()))
    arrays = [None if given is None else sample_array(given, sizes, seed) for given in sample.inputs]
    shapes = ", ".join("-" if a is None else f"{a.dtype}{list(a.shape)}" for a in arrays)
    try:
        module = _module(sample)
    except ModelError as error:
        message = error.diagnostics[0].message
        if sample.error and sample.error in message:
            return SampleResult(sample, shapes, "rejected, as declared")
        return SampleResult(sample, shapes, "", f"rejected: {message}")
    if sample.error:
        return SampleResult(sample, shapes, "", f"not rejected with {sample.error!r}")
    try:
        return _run(sample, shapes, module, arrays, options)
    except GraphwrightError as error:
        return SampleResult(sample, shapes, "", str(error))


def _run(
    sample: Sample, shapes: str, module: Module, arrays: list[Array | None], options: Options
) -> SampleResult:
    model = compile(module, options=replace(options, verify=True))
    feeds = [array for array in arrays if array is not None]
    results = []
    for threads in THREADS:
        model.threads = threads
        results.append(model(*feeds))
    ran = "NumPy" if model.executor.stats()["host_calls"] else "a kernel"
    for threads, other in zip(THREADS[1:], results[1:], strict=True):
        if any(a.tobytes() != b.tobytes() for a, b in zip(results[0], other, strict=True)):
            return SampleResult(sample, shapes, ran, f"{threads} threads compute other bits than 1 thread")
    with np.errstate(all="ignore"):
        expected = evaluate(sample.op, arrays)
    for number, (array, wanted) in enumerate(zip(results[0], expected, strict=True)):
        off = distance(array, wanted).most
        if not off <= TOLERANCE.get(module.main.outputs[number].type.dtype.name, 0.0):
            return SampleResult(
                sample, shapes, ran, f"output {number} is off by {off:.2e} from the reference"
            )
    return SampleResult(sample, shapes, ran)


def _module(sample: Sample) -> Module:
    """A module with only the op; all its operands are inputs."""
    module = Module()
    builder, _ = new_main_graph(module)
    graph = builder.graph
    values = [None if a is None else graph.add_input(a.type, f"x{k}") for k, a in enumerate(sample.inputs)]
    results = builder.node(sample.op, *values).outputs
    graph.set_outputs(list(results), [f"y{k}" for k in range(len(results))])
    module.signatures["main"] = Signature((Role.DATA,) * len(graph.inputs))
    return module


def sample_array(given: Arg, sizes: Mapping[str, int], random: np.random.Generator) -> Array:
    """An array for the operand ``given``, with ``sizes`` in place of symbols."""
    shape = tuple(number_of(dim, sizes) for dim in given.type.dims)
    dtype = given.type.dtype
    if given.values is not None:
        return np.array(given.values, dtype.numpy).reshape(shape)
    if given.fill == "mask" or dtype.kind == "bool":
        elements: Any = random.integers(0, 2, shape)
    elif given.fill == "index":
        elements = random.integers(0, 3, shape)
    elif given.fill == "positive":
        elements = random.integers(1, 6, shape) if dtype.is_integer else random.uniform(0.1, 3, shape)
    elif dtype.is_integer:
        elements = random.integers(0 if dtype.kind == "uint" else -5, 6, shape)
    else:
        elements = random.uniform(-0.99, 0.99, shape) if given.fill == "unit" else random.normal(size=shape)
    return np.asarray(elements).astype(dtype.numpy)

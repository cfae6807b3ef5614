"""Compiles and runs possibly malformed models: results and GraphwrightErrors are accepted, other exceptions
are not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import graphwright as gw
from graphwright.config import Options
from graphwright.executable.specs import TensorSpec
from graphwright.frontends.onnx.read import Source
from graphwright.runtime.model import Model

RAN, TOO_LARGE = "ran", "too large to feed"
LARGEST = 1 << 22
"""Elements of the largest input that is fed."""
STRANGE = (math.nan, math.inf, -math.inf, -0.0, 1e30, -3e38, 1e-42)
EXTREME = (0, -1, 1, 2, 127, -128, 255, 2**31 - 1, -(2**31), 2**62, -(2**63))


def attempt(source: Source, generator: np.random.Generator, options: Options) -> str:
    """``ran``, or the code of the first fault of what refused it."""
    try:
        model = gw.compile(source, options=options)
        return run(model, generator)
    except gw.GraphwrightError as error:
        assert str(error), "an error must say something"
        return error.diagnostics[0].code


def run(model: Model, generator: np.random.Generator) -> str:
    """Run twice on the same poisoned arrays: inputs stay as they were, answers are the same bits again."""
    feeds = poisoned_feeds(model, generator)
    if feeds is None:
        return TOO_LARGE
    kept = {name: array.tobytes() for name, array in feeds.items()}
    first, second = model.run(feeds), model.run(feeds)
    assert {name: array.tobytes() for name, array in feeds.items()} == kept, "an input was written"
    for spec in model.outputs:
        assert first[spec.name].dtype == spec.dtype.numpy
        assert first[spec.name].tobytes() == second[spec.name].tobytes(), "not the same bits again"
    return RAN


def poisoned_feeds(model: Model, generator: np.random.Generator) -> dict[str, Any] | None:
    """Arrays for every input, sizes and ranks that are free drawn small; None where one would be huge."""
    sizes: dict[str, int] = {}
    feeds = {}
    for spec in model.inputs:
        shape = _shape(spec, sizes, generator)
        if math.prod(filter(None, shape)) > LARGEST:  # NumPy makes no empty ones of vast sides either
            return None
        feeds[spec.name] = poisoned(spec.dtype.numpy, shape, generator)
    return feeds


def _shape(spec: TensorSpec, sizes: dict[str, int], generator: np.random.Generator) -> tuple[int, ...]:
    dims = spec.shape if spec.shape is not None else ("?",) * int(generator.integers(5))
    return tuple(d if isinstance(d, int) else sizes.setdefault(d, int(generator.integers(4))) for d in dims)


def poisoned(dtype: np.dtype[Any], shape: tuple[int, ...], generator: np.random.Generator) -> Any:
    """Ordinary values with strange ones among them: NaN, infinities, subnormals, the ends of integers."""
    ordinary = generator.integers(-3, 4, shape) if generator.random() < 0.5 else generator.normal(0, 1, shape)
    with np.errstate(all="ignore"):
        array = np.asarray(ordinary).astype(dtype)
        strange = EXTREME if dtype.kind in "iu" else STRANGE
        replaced = np.asarray(generator.choice(np.array(strange, object), shape), object)
        if dtype.kind in "iu":
            bits = 8 * dtype.itemsize
            replaced = np.asarray([int(v) % (1 << bits) for v in replaced.ravel()], np.uint64)
            replaced = replaced.astype(f"u{dtype.itemsize}").view(dtype).reshape(shape)
        chosen = generator.random(shape) < generator.choice([0.0, 0.1, 1.0])
        return np.where(chosen, replaced.astype(dtype), array).astype(dtype)

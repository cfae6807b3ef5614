"""Times an edit: its two programs on the same arrays, which are in a cache or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, Final

import numpy as np

from benchmarks.fusion.edits import Compiled
from benchmarks.fusion.paired import Blocks, Estimate, estimate
from graphwright.executable.nodes import Program

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
ROTATIONS: Final = {"hot": 0, "l2": 4 << 20, "l3": 96 << 20}
"""Bytes that runs rotate through before they come back to the same arrays: none, more than L2, more than L3.
Weights and intermediate values stay where they are.
"""
MOST_SETS: Final = 4096
STAGGER: Final = 2048 + 64
"""Bytes by which arrays lie apart beyond whole pages: equal offsets within a page would slow loads down."""


def compare(
    before: Compiled, after: Compiled, rotation: str = "hot", threads: int = 1, seconds: float = 1.5
) -> tuple[Estimate, float]:
    """The estimate of log(after / before), and the least nanoseconds of a run of ``before``."""
    sets = buffer_sets(before.program, ROTATIONS[rotation])
    sides = {"before": runner(before, sets, threads), "after": runner(after, sets, threads)}
    blocks = Blocks(sides, threads)
    return estimate(blocks, seconds), blocks.least_ns["before"]


def runner(compiled: Compiled, sets: Sequence[tuple[Arrays, Arrays]], threads: int) -> Callable[[int], None]:
    """Runs the program this many times, each on the next of ``sets``."""
    run = compiled.executor.fast_path(threads).named
    turns = cycle(sets)

    def runs(count: int) -> None:
        for feeds, out in islice(turns, count):
            run(feeds, None, out)

    feeds, out = sets[0]
    if run(feeds, None, out) is None:
        raise ValueError("the program does not take these arrays as they are")
    return runs


def buffer_sets(program: Program, least: int) -> list[tuple[Arrays, Arrays]]:
    """Inputs and outputs of ``program``: as many sets as take ``least`` bytes, at least one."""
    rng = np.random.default_rng(0)
    made = [_set(program, rng)]
    size = sum(array.nbytes for side in made[0] for array in side.values())
    while len(made) * size < least and len(made) < MOST_SETS:
        made.append(_set(program, rng, made[0][0]))
    return made


def _set(
    program: Program, rng: np.random.Generator, like: Mapping[str, Array] | None = None
) -> tuple[Arrays, Arrays]:
    feeds = {
        spec.name: _aligned(_sizes(spec.shape), spec.dtype.numpy, k) for k, spec in enumerate(program.inputs)
    }
    for name, array in feeds.items():
        array[...] = _numbers(rng, array) if like is None else like[name]
    outputs = enumerate(program.outputs, start=len(feeds))
    return feeds, {spec.name: _aligned(_sizes(spec.shape), spec.dtype.numpy, k) for k, spec in outputs}


def _sizes(shape: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in shape)


def _aligned(shape: tuple[int, ...], dtype: Any, number: int) -> Array:
    """An array that begins at a cache line of its own, ``number`` of them at different places of a page."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 8192 + number % 8 * STAGGER, np.uint8)
    start = -memory.ctypes.data % 4096 + number % 8 * STAGGER
    return memory[start : start + size].view(dtype).reshape(shape)


def _numbers(rng: np.random.Generator, array: Array) -> Array:
    if array.dtype.kind == "f":
        return np.asarray(rng.standard_normal(array.shape), array.dtype)
    return np.asarray(rng.integers(-100, 100, array.shape), array.dtype)

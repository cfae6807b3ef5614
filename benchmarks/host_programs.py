"""Measures the cost of host programs: a run of a partitioned model, by the number of its Python nodes.

    python -m benchmarks.host_programs [--nodes 0 1 2 4 8 16] [--rows 16]

A chain of elementwise nodes on a small matrix; between two of them, a Python node reshapes the matrix to a
shape that is an input. The cost of a Python node and of the return to a program is the slope of a run's time
over their number. The time of NumPy for the same reshapes is measured in turns, in the same process. Times
are CPU times of the thread: the least of many short runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import graphwright as gw
from benchmarks.timing import least_microseconds
from graphwright.config import Options
from graphwright.executable.nodes import HostProgram
from graphwright.ops.core.binary import Add
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.unary import Relu

Array = np.ndarray[Any, Any]
ROUNDS = 200
RUNS = 20
"""In a row, in each round."""


def chain(nodes: int) -> gw.Model:
    """A chain with ``nodes`` reshapes of ``x: f32[N, 4]`` by an input, each between two programs."""
    b = gw.GraphBuilder()
    x, shape = b.input("x", "f32", ("N", 4)), b.input("shape", "i64", (2,))
    for _ in range(nodes):
        x = b(Reshape(), b(Relu(), b(Add(), x, x)), shape)
    b.output("y", b(Relu(), b(Add(), x, x)))
    return b.compile(options=Options(threads=1))


def main() -> None:
    """Print a row for each number of nodes, and the slopes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[0, 1, 2, 4, 8, 16])
    parser.add_argument("--rows", type=int, default=16)
    given = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((given.rows, 4)).astype(np.float32)
    shape = np.array([given.rows, 4])
    models = [chain(nodes) for nodes in given.nodes]

    def reshapes(nodes: int) -> None:
        for _ in range(nodes):
            x.reshape(tuple(shape.tolist()))

    def runs(model: gw.Model) -> Callable[[], object]:
        return lambda: model(x, shape)

    staged = least_microseconds(list(map(runs, models)), ROUNDS, RUNS)
    alone = least_microseconds([partial(reshapes, nodes) for nodes in given.nodes], ROUNDS, RUNS)
    print("  nodes  run in Python  programs  a run    NumPy's reshapes alone")
    for nodes, model, taken, plain in zip(given.nodes, models, staged, alone, strict=True):
        main = model.entry.executable
        hosts, programs = (len(main.hosts()), len(main.calls())) if isinstance(main, HostProgram) else (0, 1)
        print(f"{nodes:7}  {hosts:13}  {programs:8}  {taken:5.1f} us  {plain:5.1f} us")
    if len(models) > 1:
        slopes = [np.polyfit(given.nodes, times, 1)[0] for times in (staged, alone)]
        print(f"a Python node takes {slopes[0]:.1f} us, of which NumPy's reshape is {slopes[1]:.1f} us")


if __name__ == "__main__":
    main()

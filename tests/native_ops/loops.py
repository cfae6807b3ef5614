"""Models whose loops run natively: at 1, 2 and 3 threads, with freed memory poisoned, plans checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from graphwright.low_ir.tasks import Task, TaskGraph, TaskKind
from graphwright.memory.checker.check import check_plan
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.model import Model
from tests.ops.loops import by_runtime, compiled

Array = np.ndarray[Any, Any]
THREADS = (1, 2, 3)


def native(proto: onnx.ModelProto) -> Model:
    """Compiled into one program, nothing of which is left to the host."""
    model = compiled(proto, "cpu")
    assert isinstance(model.executor, Cpu), "it is driven from the host"
    return model


def program_of(model: Model) -> TaskGraph:
    assert isinstance(model.executor, Cpu)
    return model.executor.task_graph


def loops_of(model: Model) -> list[Task]:
    return [task for task in program_of(model).tasks if task.kind is TaskKind.LOOP]


def copies_in_loops(model: Model) -> int:
    """Copies in each run of the loops, but for those of rows."""
    program = program_of(model)
    pending = [block for task in loops_of(model) for block in task.blocks]
    seen: set[int] = set()
    while pending:
        block = program.blocks[pending.pop()]
        for index in range(block.first, block.first + block.count):
            seen.add(index)
            pending += program.tasks[index].blocks
    tasks = [program.tasks[index] for index in seen]
    return sum(task.kind is TaskKind.COPY and len(task.operands) == 2 for task in tasks)


def results(model: Model, feeds: Mapping[str, Array]) -> list[Array]:
    """The results of all runs: the same bits with any number of threads, with or without poison."""
    device = model.executor
    assert isinstance(device, Cpu)
    found: list[list[Array]] = []
    for threads in THREADS:
        shapes = [feeds[spec.name].shape for spec in model.inputs]
        assert check_plan(device.task_graph, device.plan(shapes, threads), threads) == []
        model.threads = threads
        found.append([np.asarray(a) for a in model.run(dict(feeds)).values()])
        arrays = [np.asarray(feeds[spec.name], order="C") for spec in model.inputs]
        found.append([np.asarray(a) for a in device.run(arrays, None, threads, poison=True)])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.tobytes() == b.tobytes()
    return found[0]


def compare(proto: onnx.ModelProto, feeds: Mapping[str, Array], tolerance: float = 2e-5) -> Model:
    """Assert that a native run and ONNX Runtime give the same."""
    model = native(proto)
    for a, e in zip(results(model, feeds), by_runtime(proto, feeds), strict=True):
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)
    return model

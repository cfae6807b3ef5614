"""The C runtime under the address, undefined-behavior and thread sanitizers."""

from __future__ import annotations

import os
import random
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphwright.ir.types import I64
from graphwright.low_ir.tasks import Block, Storage, Task, TaskGraph, TaskKind
from tests.low_ir.words import encode
from tests.runtime.native.everything import everything
from tests.runtime.native.handmade import Builder
from tests.sanitizers import RUNTIME, SANITIZERS, runtime_objects, sanitizer_flags

HERE = Path(__file__).parent


def random_program(seed: int, elements: int) -> tuple[TaskGraph, np.ndarray, np.ndarray]:
    """A graph of `mix` launches, some in an IF whose other branch is empty, some in a LOOP; with input and
    output.
    """
    pick = random.Random(seed)
    b = Builder()
    x, (n,) = b.input(1, I64)
    y = b.output((n,), I64)
    yes_no = b.buffer(Storage.WEIGHT, b.const(2), 0)
    size = b.buffers[x].size
    scratch = b.buffer(Storage.SCRATCH, size)
    work = pick.choice((0, 1_000_000))
    count = pick.randint(1, 25)
    value = np.arange(elements, dtype=np.int64)
    buffers, values, writers, inner = [x], [value], [-1], []
    for i in range(count):
        left, right = (pick.choice([k for k, writer in enumerate(writers) if writer > -2]) for _ in range(2))
        target = y if i == count - 1 else b.arena(size, [scratch, *(p for p in buffers if p != x)])
        after = tuple(writers[k] for k in (left, right) if writers[k] >= 0)
        operands = [buffers[left], buffers[right], target]
        short = pick.choice((0, work))
        task = b.launch("mix", operands, [2], n, args=[b.const(i)], work=short, scratch=scratch, after=after)
        if pick.random() < 0.2:
            inner.append((task, b.tasks[task]))
            chosen = pick.randrange(2)
            condition = (b.at(yes_no, 1 - chosen),)  # the weights are 1, 0
            b.tasks[task] = Task(TaskKind.IF, condition, blocks=(chosen, 1 - chosen), after=after)
        elif pick.random() < 0.2:
            number = b.arena(b.const(8), [scratch, *(p for p in (*buffers, target) if p not in (x, y))])
            inner.append((task, b.tasks[task]))
            trips = (b.const(pick.randint(1, 4)),)
            b.tasks[task] = Task(
                TaskKind.LOOP, (b.at(number), None, None), (0,), args=trips, blocks=(0,), after=after
            )
            buffers.append(number)
            values.append(value)
            writers.append(-2)
        buffers.append(target)
        values.append((values[left] * 3 + values[right] + i) % 1000003)
        writers.append(task)
    _move_into_branches(b, inner)
    return b.program(), value, values[-1]


def _move_into_branches(b: Builder, inner: list[tuple[int, Task]]) -> None:
    """Each launch behind an IF or LOOP goes to the end, into that block which runs."""
    entry = len(b.tasks)
    b.blocks = [Block(0, entry)]
    for i, (task, launch) in enumerate(inner):
        first, held = len(b.blocks), b.tasks[task]
        full, empty = Block(entry + i, 1), Block(0, 0)
        if held.kind is TaskKind.IF:  # condition 1: the first branch runs; 0: the second
            b.blocks += [full, empty] if held.blocks[0] == 1 else [empty, full]
        else:
            b.blocks.append(full)
        blocks = tuple(range(first, len(b.blocks)))
        b.tasks[task] = replace(held, blocks=blocks)
        b.tasks.append(replace(launch, after=()))


@pytest.fixture(scope="module", params=SANITIZERS)
def stress(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test program, once for each sanitizer."""
    program = tmp_path_factory.mktemp("stress") / request.param
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", f"-I{RUNTIME}", *sanitizer_flags(request.param)]
    sources = [str(HERE / "stress.c"), *runtime_objects(tmp_path_factory, request.param)]
    subprocess.run(["gcc", *flags, "-o", str(program), *sources, "-lpthread", "-ldl"], check=True)
    return program


def write_case(path: Path, program: TaskGraph, x: np.ndarray, y: np.ndarray) -> Path:
    words = encode(program)
    path.write_bytes(
        struct.pack("<q", len(words) // 8) + words + struct.pack("<q", len(x)) + x.tobytes() + y.tobytes()
    )
    return path


def run_stress(program: Path, rounds: int, files: list[Path]) -> None:
    options = {"ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1"}
    command = [str(program), str(rounds), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **options})
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[-4000:]


def test_random_graphs_run_without_a_report(tmp_path: Path, stress: Path) -> None:
    cases = [write_case(tmp_path / f"{seed}.bin", *random_program(seed, 48 + seed)) for seed in range(12)]
    run_stress(stress, 100, cases)


def test_corrupt_programs_are_rejected_without_a_report(tmp_path: Path, stress: Path) -> None:
    if stress.name == "thread":  # damaged edges let tasks race, and it would say so
        return
    x = np.arange(50, dtype=np.int64)
    cases = [write_case(tmp_path / "everything.bin", everything(), x, x)]
    cases += [write_case(tmp_path / f"{seed}.bin", *random_program(seed, 50)) for seed in (1, 2)]
    run_stress(stress, 0, cases)

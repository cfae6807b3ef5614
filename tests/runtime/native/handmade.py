"""Programs put together by hand, and the tiny C kernels that they launch."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphwright import _native
from graphwright.ir.types import F32, DType
from graphwright.kernels.ref import KernelRef
from graphwright.low_ir.tasks import (
    Binding,
    Block,
    Buffer,
    Code,
    FunctionOperand,
    HostFunction,
    Instruction,
    Operand,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)
from tests.low_ir.words import encode

KERNELS = """
#include <stdint.h>
#include <time.h>
typedef int32_t (*hook)(void *const *, const int64_t *, float *, int64_t, int64_t, int64_t, int64_t, int64_t,
                        int64_t);
#define EXPORT __attribute__((visibility("default")))

/* out = in * 2 + arg[0] */
EXPORT int32_t affine(void *const *b, const int64_t *a, int64_t begin, int64_t end, void *s) {
    (void)s;
    for (int64_t i = begin; i < end; i++)
        ((float *)b[1])[i] = ((const float *)b[0])[i] * 2 + (float)a[0];
    return 0;
}
/* out = x + y */
EXPORT int32_t add(void *const *b, const int64_t *a, int64_t begin, int64_t end, void *s) {
    (void)a, (void)s;
    for (int64_t i = begin; i < end; i++)
        ((float *)b[2])[i] = ((const float *)b[0])[i] + ((const float *)b[1])[i];
    return 0;
}
/* out[row] = sum of the row, summed in scratch; arg[0] columns */
EXPORT int32_t row_sum(void *const *b, const int64_t *a, int64_t begin, int64_t end, void *scratch) {
    float *t = scratch;
    if ((uintptr_t)scratch % 64) return 64;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t j = 0; j < a[0]; j++) t[j] = ((const float *)b[0])[row * a[0] + j];
        float sum = 0;
        for (int64_t j = 0; j < a[0]; j++) sum += t[j];
        ((float *)b[1])[row] = sum;
    }
    return 0;
}
/* out = hook of 1 x 1 tiles: operands x, hook, hook's output */
EXPORT int32_t hooked(void *const *b, const int64_t *a, int64_t begin, int64_t end, void *s) {
    (void)s;
    for (int64_t i = begin; i < end; i++) {
        float tile = ((const float *)b[0])[i];
        if (!b[1]) return 7;
        int32_t code = ((hook)b[1])(b + 2, a + 1, &tile, 1, 0, i, 1, 0, 1);
        if (code) return code;
    }
    return 0;
}
EXPORT int32_t triple(void *const *b, const int64_t *a, float *tile, int64_t ld, int64_t batch, int64_t row,
                      int64_t rows, int64_t col, int64_t cols) {
    (void)ld, (void)batch, (void)rows, (void)col, (void)cols;
    ((float *)b[0])[row] = tile[0] * 3 + (float)a[0];
    return 0;
}
/* fails with arg[0] in the unit arg[1] */
EXPORT int32_t fail_at(void *const *b, const int64_t *a, int64_t begin, int64_t end, void *s) {
    (void)b, (void)s;
    return begin <= a[1] && a[1] < end ? (int32_t)a[0] : 0;
}
/* touches nothing */
EXPORT int32_t idle(void *const *b, const int64_t *a, int64_t begin, int64_t end, void *s) {
    return (void)b, (void)a, (void)begin, (void)end, (void)s, 0;
}
/* takes arg[0] microseconds of a core for each unit, and writes 1 */
EXPORT int32_t burn(void *const *b, const int64_t *a, int64_t begin, int64_t end, void *s) {
    struct timespec t;
    (void)s;
    for (int64_t i = begin; i < end; i++) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        int64_t start = t.tv_sec * 1000000000LL + t.tv_nsec, now = start;
        while (now - start < a[0] * 1000) {
            clock_gettime(CLOCK_MONOTONIC, &t);
            now = t.tv_sec * 1000000000LL + t.tv_nsec;
        }
        ((float *)b[0])[i] = 1;
    }
    return 0;
}
"""


def build_kernels(folder: Path) -> bytes:
    """The shared object of KERNELS."""
    source, built = folder / "kernels.c", folder / "kernels.so"
    source.write_text(KERNELS)
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", str(built), str(source)], check=True)
    return built.read_bytes()


class Builder:
    """Adds one thing at a time and returns its number."""

    def __init__(self) -> None:
        self.inputs: list[Binding] = []
        self.outputs: list[Binding] = []
        self.shape: list[Instruction] = []
        self.buffers: list[Buffer] = []
        self.tasks: list[Task] = []
        self.blocks: list[Block] = []
        self.kernels: list[KernelRef] = []
        self.hosts: list[HostFunction] = []

    def register(self, code: Code, a: int, b: int = 0, note: str = "") -> int:
        self.shape.append(Instruction(code, a, b, note))
        return len(self.shape) - 1

    def const(self, value: int) -> int:
        return self.register(Code.CONST, value)

    def bytes_of(self, elements: int) -> int:
        return self.register(Code.MUL, elements, self.const(4))

    def kernel(self, symbol: str) -> int:
        if KernelRef(symbol) not in self.kernels:
            self.kernels.append(KernelRef(symbol))
        return self.kernels.index(KernelRef(symbol))

    def input(self, rank: int, dtype: DType = F32) -> tuple[int, tuple[int, ...]]:
        """Adds an input with free dims; its buffer and the registers of its dims."""
        index = len(self.inputs)
        dims = tuple(self.register(Code.DIM, index, axis) for axis in range(rank))
        self.inputs.append(Binding(f"x{index}", dtype, dims))
        return self.buffer(Storage.INPUT, self._bytes(dtype, dims), index), dims

    def output(self, dims: tuple[int, ...], dtype: DType = F32) -> int:
        index = len(self.outputs)
        self.outputs.append(Binding(f"y{index}", dtype, dims))
        return self.buffer(Storage.OUTPUT, self._bytes(dtype, dims), index)

    def _bytes(self, dtype: DType, dims: tuple[int, ...]) -> int:
        size = self.const(dtype.bytes)
        for dim in dims:
            size = self.register(Code.MUL, size, dim)
        return size

    def buffer(self, storage: Storage, size: int, index: int = 0, conflicts: Sequence[int] = ()) -> int:
        self.buffers.append(Buffer(storage, size, index, tuple(conflicts)))
        return len(self.buffers) - 1

    def arena(self, size: int, conflicts: Sequence[int] = ()) -> int:
        return self.buffer(Storage.ARENA, size, 0, conflicts)

    def at(self, buffer: int, offset: int = 0) -> Operand:
        return Operand(buffer, self.const(offset))

    def launch(
        self,
        symbol: str,
        operands: Sequence[int | Operand | FunctionOperand | None],
        writes: Sequence[int],
        grid: int,
        *,
        args: Sequence[int] = (),
        after: Sequence[int] = (),
        work: int = 0,
        scratch: int = -1,
    ) -> int:
        full = tuple(self.at(o) if isinstance(o, int) else o for o in operands)
        self.tasks.append(
            Task(
                TaskKind.LAUNCH,
                full,
                tuple(writes),
                kernel=self.kernel(symbol),
                args=tuple(args),
                grid=grid,
                scratch=scratch,
                work=self.const(work),
                after=tuple(after),
            )
        )
        return len(self.tasks) - 1

    def task(
        self, kind: TaskKind, operands: Sequence[Operand], writes: Sequence[int] = (), **fields: Any
    ) -> int:
        self.tasks.append(Task(kind, tuple(operands), tuple(writes), **fields))
        return len(self.tasks) - 1

    def program(self) -> TaskGraph:
        blocks = self.blocks or [Block(0, len(self.tasks))]
        return TaskGraph(
            tuple(self.inputs),
            tuple(self.outputs),
            tuple(self.shape),
            tuple(self.buffers),
            tuple(self.tasks),
            tuple(blocks),
            tuple(self.kernels),
            tuple(self.hosts),
        )


def load(
    program: TaskGraph,
    library: _native.Library,
    *,
    weights: bytes = b"",
    hosts: Sequence[Callable[..., object]] = (),
    plan_cache: int = 16,
    arenas: _native.Arenas | None = None,
) -> _native.Program:
    return _native.Program(
        encode(program),
        weights,
        [library.symbol(k.symbol) for k in program.kernels],
        hosts,
        plan_cache,
        lambda: [p.dtype.numpy for p in program.outputs],
        [library],
        arenas,
    )


def numbers(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal(n).astype(np.float32)


def affine_chain(length: int, work: int = 0) -> TaskGraph:
    """y = x doubled plus task number, `length` times over, through two arena buffers that take turns."""
    b = Builder()
    x, (n,) = b.input(1)
    size = b.bytes_of(n)
    y = b.output((n,))
    temporaries = [b.arena(size)]
    temporaries.append(b.arena(size, [temporaries[0]]))
    source = x
    for i in range(length):
        target = y if i == length - 1 else temporaries[i % 2]
        b.launch("affine", [source, target], [1], n, args=[b.const(i)], after=[i - 1] if i else [], work=work)
        source = target
    return b.program()


def affine_chain_value(x: np.ndarray, length: int) -> np.ndarray:
    for i in range(length):
        x = (x * np.float32(2) + np.float32(i)).astype(np.float32)
    return x


def wide(branches: int, work: int) -> TaskGraph:
    """y = sum over i of (2 x + i): a fan of `branches` launches, added up one after the other."""
    b = Builder()
    x, (n,) = b.input(1)
    size = b.bytes_of(n)
    y = b.output((n,))
    parts: list[int] = []
    for _ in range(branches + 1):
        parts.append(b.arena(size, list(parts)))
    for i in range(branches):
        b.launch("affine", [x, parts[i]], [1], n, args=[b.const(i)], work=work)
    total, last = parts[0], 0
    for i in range(1, branches):
        target = y if i == branches - 1 else parts[branches]
        last = b.launch("add", [total, parts[i], target], [2], n, after=[last, i], work=work)
        total = target
    return b.program()


def wide_value(x: np.ndarray, branches: int) -> np.ndarray:
    total = x * np.float32(2)
    for i in range(1, branches):
        total = total + (x * np.float32(2) + np.float32(i))
    return total

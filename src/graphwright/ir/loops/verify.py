"""The verifier of kernels. It checks names, dtypes, ranks, steps and memory levels."""

from __future__ import annotations

from collections.abc import Iterable

from graphwright.errors import Collector, VerifyError
from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.interpret import COMBINERS
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Apply,
    Bits,
    Buffer,
    Call,
    Cast,
    Const,
    Index,
    Kernel,
    Kind,
    Let,
    Level,
    Load,
    Loop,
    Position,
    Ref,
    Scalar,
    Statement,
    Store,
    Tile,
    walk,
)
from graphwright.ir.loops.text import RESERVED, print_statement
from graphwright.ir.symbols import Dim, names_in
from graphwright.ir.types import BOOL, F32, DType

MICROKERNELS = {"matmul": 2}
"""The number of operands of each microkernel of :class:`Call`."""


def verify(kernel: Kernel) -> None:
    """Raises :class:`VerifyError` with all violations in ``kernel`` and their statements."""
    checker = _Checker(kernel)
    for name in (*kernel.sizes, *(p.name for p in kernel.parameters)):
        checker.declare(name)
    for name in kernel.scalars:
        checker.declare(name)
        checker.values[name] = F32
    for parameter in kernel.parameters:
        checker.buffer(parameter)
        # the first may be a hook's tile
        if parameter.level is not Level.GLOBAL and parameter is not kernel.parameters[0]:
            checker.add(f"parameter {parameter.name} has level {parameter.level}")
        checker.buffers[parameter.name] = parameter
    checker.body(kernel.body, vector=False)
    checker.faults.raise_if_any()


class _Checker:
    def __init__(self, kernel: Kernel) -> None:
        self.faults = Collector(VerifyError)
        self.kernel = kernel
        self.where = f"kernel {kernel.name}"
        self.sizes = set(kernel.sizes)
        self.axes = set(kernel.sizes)
        self.buffers: dict[str, Buffer] = {}
        self.values: dict[str, DType] = {}

    def add(self, message: str) -> None:
        self.faults.add("loop-verify", message, self.where)

    def declare(self, name: str) -> None:
        if name in RESERVED:
            self.add(f"{name} is a reserved word")
        if name in self.axes | self.buffers.keys() | self.values.keys() and name not in self.kernel.sizes:
            self.add(f"{name} is bound twice")

    def body(self, body: tuple[Statement, ...], vector: bool) -> None:
        outer = set(self.axes), dict(self.buffers), dict(self.values)
        for statement in body:
            self.where = f"kernel {self.kernel.name}, {print_statement(statement).splitlines()[0]}"
            if isinstance(statement, Loop):
                self.loop(statement, vector)
            else:
                self.simple(statement, vector)
        self.axes, self.buffers, self.values = outer

    def loop(self, loop: Loop, vector: bool) -> None:
        self.declare(loop.axis)
        self.dims((loop.extent,), self.axes)
        if loop.step < 1:
            self.add(f"step {loop.step} is not positive")
        if loop.kind is Kind.VECTOR and loop.step != 1:
            self.add("a vector loop has step 1")
        outer, self.axes = self.axes, self.axes | {loop.axis}
        innermost = loop.kind is Kind.VECTOR and not any(
            isinstance(s, Loop) and s.kind is Kind.VECTOR for s in walk(loop.body)
        )
        self.body(loop.body, vector or innermost)
        self.axes = outer

    def simple(self, statement: Statement, vector: bool) -> None:
        match statement:
            case Let(name, value):
                self.declare(name)
                self.scalar(value)
                self.values[name] = value.dtype
            case Alloc(buffer):
                self.declare(buffer.name)
                self.buffer(buffer)
                if buffer.level is Level.GLOBAL:
                    self.add(f"{buffer.name} is allocated at level global")
                if buffer.level is Level.REGISTER and not all(isinstance(d, int) for d in buffer.shape):
                    self.add(f"register buffer {buffer.name} needs a literal shape")
                if vector and buffer.level is not Level.REGISTER:
                    self.add(f"{buffer.name} is allocated in a vector loop: only registers can be")
                self.buffers[buffer.name] = buffer
            case Store(buffer, index, value, mask):
                self.access(buffer, index, mask)
                self.same(self.scalar(value), buffer.dtype, "the value")
            case Accumulate(buffer, index, combiner, value, mask):
                self.access(buffer, index, mask)
                self.same(self.scalar(value), buffer.dtype, "the value")
                if combiner not in COMBINERS:
                    self.add(f"no combiner {combiner!r}; there are {', '.join(COMBINERS)}")
            case Call():
                self.call(statement, vector)

    def call(self, call: Call, vector: bool) -> None:
        if len(call.operands) != MICROKERNELS.get(call.microkernel, -1):
            self.add(f"no microkernel {call.microkernel} of {len(call.operands)} operands")
        if vector:
            self.add("a microkernel call in a vector loop")
        for tile in (call.out, *call.operands):
            self.tile(tile)
            self.same(tile.buffer.dtype, call.out.buffer.dtype, tile.buffer.name)

    def tile(self, tile: Tile) -> None:
        self.known(tile.buffer)
        self.dims((*tile.offsets, *tile.sizes), self.axes)
        rank = len(tile.buffer.shape)
        if len(tile.offsets) != rank or len(tile.sizes) != rank:
            self.add(f"a tile of {len(tile.sizes)} axes of {tile.buffer.name}, which has {rank}")
        droppable = sum(isinstance(s, int) and s == 1 for s in tile.sizes)
        if rank < 2 or rank - droppable > 2:
            self.add(f"the tile of {tile.buffer.name} is not two-dimensional")

    def access(self, buffer: Buffer, index: tuple[Index, ...], mask: Scalar | None) -> None:
        self.known(buffer)
        if len(index) != len(buffer.shape):
            self.add(f"{len(index)} indices into {buffer.name}, which has {len(buffer.shape)} dimensions")
        for entry in index:
            if not isinstance(entry, Scalar):
                self.dims((entry,), self.axes)
            elif not self.scalar(entry).is_integer:
                self.add(f"{buffer.name} is indexed by {entry.dtype}")
        if mask is not None:
            self.same(self.scalar(mask), BOOL, "the mask")

    def known(self, buffer: Buffer) -> None:
        if self.buffers.get(buffer.name) != buffer:
            self.add(f"buffer {buffer.name} is not declared here, or differs from its declaration")

    def buffer(self, buffer: Buffer) -> None:
        self.dims((*buffer.shape, *(buffer.strides or ())), self.sizes)
        if buffer.strides is not None and len(buffer.strides) != len(buffer.shape):
            self.add(f"{buffer.name} has {len(buffer.shape)} dimensions and {len(buffer.strides)} strides")

    def dims(self, dims: Iterable[Dim], bound: set[str]) -> None:
        for dim in dims:
            for name in sorted(names_in(dim) - bound):
                self.add(f"{name} in {dim} is not bound")

    def same(self, found: DType, wanted: DType, what: str) -> None:
        if found != wanted:
            self.add(f"{what} is {found}, not {wanted}")

    def scalar(self, value: Scalar) -> DType:
        match value:
            case Const():
                pass
            case Ref(name, dtype):
                if self.values.get(name) != dtype:
                    self.add(f"{name}: {dtype} is not bound")
            case Position(index):
                self.dims((index,), self.axes)
            case Load(buffer, index, mask):
                self.access(buffer, index, mask)
            case Cast(operand):
                self.scalar(operand)
            case Bits(operand, dtype):
                if self.scalar(operand).bits != dtype.bits:
                    self.add(f"{operand.dtype} and {dtype} differ in bits")
            case Apply(function, operands):
                self.application(value, function, operands)
            case _:
                self.add(f"{value!r} is not a scalar")
        return value.dtype

    def application(self, value: Apply, function: str, operands: tuple[Scalar, ...]) -> None:
        known = FUNCTIONS.get(function)
        if known is None or len(operands) != known.arity:
            self.add(f"no function {function} of {len(operands)} operands")
            return
        dtypes = [self.scalar(operand) for operand in operands]
        if function == "select":
            self.same(dtypes.pop(0), BOOL, "the condition")
        if len(set(dtypes)) > 1:
            self.add(f"{function} of {' and '.join(map(str, dtypes))}")
        self.same(value.dtype, BOOL if known.predicate else dtypes[0], f"{function}'s result")

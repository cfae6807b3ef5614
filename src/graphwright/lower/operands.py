"""Operands of tasks: numbers the buffers and kernels of a program when they are first used."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.ir.graph import Value
from graphwright.ir.symbols import Dim, SymbolTable, maximum
from graphwright.ir.types import TensorType
from graphwright.kernels.launch import ByteRange
from graphwright.kernels.ref import KernelRef
from graphwright.low_ir.tasks import Buffer, FunctionOperand, Operand, Storage
from graphwright.lower.shape_program import ShapeProgramBuilder
from graphwright.memory.locations import Location, Memory


class Operands:
    """The buffers and kernels of a program. Sizes and offsets become registers of the shape program."""

    def __init__(
        self, shape: ShapeProgramBuilder, symbols: SymbolTable, locations: Mapping[Value, Location]
    ) -> None:
        self._shape, self._symbols, self._locations = shape, symbols, locations
        self.is_inner = False
        """Whether tasks of a branch or a loop are lowered."""
        self.buffers: list[Buffer] = []
        self.kernels: dict[KernelRef, int] = {}
        self.of_values: dict[Value, Operand] = {}
        """The operand through which tasks access each value."""
        self._numbers: dict[Memory, int] = {}

    def registers(self, type: TensorType) -> tuple[int, ...]:
        """The registers of the sizes of ``type``."""
        return tuple(self._shape.register(dim) for dim in type.dims)

    def number(self, memory: Memory) -> int:
        """The index of the buffer in ``memory``."""
        if memory not in self._numbers:
            self._numbers[memory] = len(self.buffers)
            size = memory.size
            if self.is_inner and not self._symbols.proves_at_least(size, 0):
                size = maximum(size, 0)  # may be negative for sizes with which the branch is not taken
            self.buffers.append(
                Buffer(memory.storage, self._shape.register(size), memory.index, (), memory.name)
            )
        return self._numbers[memory]

    def operand(self, item: Value | ByteRange) -> Operand:
        """The operand for a value, or for a part of its bytes."""
        value, extra = (item.value, item.offset) if isinstance(item, ByteRange) else (item, 0)
        location = self._locations[value]
        operand = Operand(self.number(location.memory), self._shape.register(location.offset + extra))
        if item is value:
            self.of_values[value] = operand
        return operand

    def kernel_operand(self, item: Value | ByteRange | KernelRef) -> Operand | FunctionOperand:
        """The operand of a kernel, which may be the address of another kernel."""
        return FunctionOperand(self.kernel(item)) if isinstance(item, KernelRef) else self.operand(item)

    def kernel(self, ref: KernelRef) -> int:
        """The index of the kernel."""
        return self.kernels.setdefault(ref, len(self.kernels))

    def scratch(self, size: Dim) -> int:
        """The index of a scratch buffer of ``size`` bytes; -1 for none."""
        return -1 if size == 0 else self.number(Memory(Storage.SCRATCH, size, "scratch"))

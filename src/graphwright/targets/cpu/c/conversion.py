"""Conversions of values as C expressions: between memory and registers, and between dtypes."""

from __future__ import annotations

from graphwright.ir.types import BOOL, I32, I64, U32, U64, DType
from graphwright.records import replace
from graphwright.targets.cpu.c.dtypes import C_TYPES, check_dtype, lane_dtype, stored_dtype
from graphwright.targets.cpu.c.lines import Lines, operand
from graphwright.targets.cpu.c.scope import Value


class Conversions(Lines):
    """Emits conversions as C expressions."""

    def splat(self, value: Value, count: int) -> str:
        """A vector of ``count`` lanes that all hold one value."""
        text = f"-{operand(value.text)}" if value.dtype == BOOL else value.text
        return self.prelude.call("splat", lane_dtype(value.dtype), count, text)

    def vectorized(self, value: Value) -> str:
        """``value`` as a vector; a scalar is broadcast."""
        return value.text if value.vector else self.splat(value, self.count)

    def widen_scalar(self, dtype: DType, stored: str) -> str:
        """One element from memory, converted to the C type in which it is computed."""
        if stored_dtype(dtype) != dtype and dtype != BOOL:
            return self.storage.scalar_converted("widen", dtype, stored)
        return f"({stored} != 0)" if dtype == BOOL else stored

    def stored_vector(self, value: Value, dtype: DType) -> str:
        """A vector converted to the form of its elements in memory."""
        if value.vector and value.stored and value.stored[0] == dtype:
            return value.stored[1]
        return self.storage.narrow(dtype, self.count, self.vectorized(value))

    def stored_scalar(self, value: Value) -> str:
        """A scalar converted to its form in memory."""
        if value.stored and value.stored[0] == value.dtype:
            return value.stored[1]
        if stored_dtype(value.dtype) != value.dtype and value.dtype != BOOL:
            return self.storage.scalar_converted("narrow", value.dtype, value.text)
        return value.text

    def rounded(self, value: Value) -> Value:
        """The result of a function, rounded to its dtype if it is computed in a wider one: NumPy rounds each
        result too.
        """
        if value.dtype.computed == value.dtype:
            return value
        if value.vector:
            return replace(value, text=self.storage.round(value.dtype, self.count, value.text))
        return replace(value, text=self.widen_scalar(value.dtype, self.stored_scalar(value)))

    def converted(self, value: Value, dtype: DType) -> Value:
        """``value`` converted to ``dtype``, in the type in which ``dtype`` is computed."""
        check_dtype(dtype)
        source, target = value.dtype.computed, dtype.computed
        if source == target:
            return replace(value, dtype=dtype)
        if not value.vector:
            return Value(self.cast_scalar(value.text, source, target), dtype)
        return Value(self.cast_vector(value.text, source, target), dtype, vector=True)

    def same_bits(self, value: Value, dtype: DType) -> Value:
        """The bits of ``value`` in memory, reinterpreted as ``dtype``."""
        check_dtype(dtype)
        if not value.vector:
            source, target = stored_dtype(value.dtype), stored_dtype(dtype)
            helper = self.storage.scalar_bits(source, target)
            return Value(self.widen_scalar(dtype, f"{helper}({self.stored_scalar(value)})"), dtype)
        stored = self.storage.narrow(value.dtype, self.count, value.text)
        bits = f"(({self.prelude.vector(stored_dtype(dtype), self.count)}){operand(stored)})"
        return Value(self.storage.widen(dtype, self.count, bits), dtype, vector=True)

    def cast_scalar(self, text: str, source: DType, target: DType) -> str:
        """A number converted to another C type."""
        if target == BOOL:
            return f"({text} != 0)"
        return f"({C_TYPES[target.name]}){_through(source, target)}{operand(text)}"

    def cast_vector(self, text: str, source: DType, target: DType) -> str:
        """A vector converted to another dtype, with the same number of lanes."""
        if target == BOOL:
            return self.as_mask(f"({text} != 0)", source)
        final, lanes = self.prelude.vector(target, self.count), self.prelude.vector(I32, self.count)
        if source == BOOL:
            text, source = f"(-{operand(text)})", I32
        if source.is_integer and source.bits < 32 <= target.bits:
            text, source = self.storage.spread(source, self.count, text), I32
        if target.is_integer and target.bits < 32 and source.bits >= 32:
            if source.is_float:
                text, source = f"__builtin_convertvector({text}, {lanes})", I32
            if source.bits == 32:
                return self.storage.gather_low(target, self.count, text)
        if source == target:
            return text
        if source.is_float and target in (U32, U64):
            text = f"__builtin_convertvector({text}, {self.prelude.vector(I64, self.count)})"
        return f"__builtin_convertvector({text}, {final})"

    def as_mask(self, comparison: str, dtype: DType) -> str:
        """A comparison of vectors as a mask of i32 lanes."""
        if dtype.bits == 32:
            return comparison
        return f"__builtin_convertvector({comparison}, {self.prelude.mask(self.count)})"


def _through(source: DType, target: DType) -> str:
    """The intermediate dtype of a cast: out of range, float to a narrow or unsigned integer is undefined in
    C, while NumPy converts through a wider integer.
    """
    if not source.is_float or not target.is_integer:
        return ""
    if target.bits < 32:
        return "(int32_t)"
    return "(int64_t)" if target in (U32, U64) else ""

"""Emits functions of values as C expressions."""

from __future__ import annotations

from typing import Final

from graphwright.errors import Diagnostic, ToolchainError
from graphwright.ir.types import BOOL, F32, DType
from graphwright.targets.cpu.c.analysis import COMPARISONS
from graphwright.targets.cpu.c.conversion import Conversions
from graphwright.targets.cpu.c.dtypes import C_TYPES, lane_dtype
from graphwright.targets.cpu.c.lines import operand
from graphwright.targets.cpu.c.literals import literal
from graphwright.targets.cpu.c.scope import Value

_OPERATORS: Final = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})", "div_by_sum": "({} / {})",
    "and": "({} & {})", "or": "({} | {})", "xor": "({} ^ {})", "not": "(~{})", "neg": "(-{})",
    "fma": "({} * {} + {})",
}  # fmt: skip
"""Functions of numbers that C has operators for."""


_BY_NUMBER: Final = {"div": "divided", "div_by_sum": "div_by_sum", "pow": "powered"}
"""Helpers for f32 vectors whose second operand is one number for all lanes."""


_BOOL_MEANING: Final = {
    "add": "({a} | {b})", "mul": "({a} & {b})", "max": "({a} | {b})", "min": "({a} & {b})",
    "and": "({a} & {b})", "or": "({a} | {b})", "xor": "({a} ^ {b})", "ne": "({a} ^ {b})",
}  # fmt: skip
"""Functions of bools, valid for vectors (masks) and scalars (0 or 1)."""


_BOOL_NEGATED: Final = {"eq": "({a} ^ {b})", "lt": "(NOT {b} | {a})", "le": "({a} & NOT {b})"}
"""Comparisons of bools as the expression to negate."""


class Arithmetic(Conversions):
    """Emits functions of values, which are all vectors or all scalars."""

    def apply(self, function: str, operands: tuple[Value, ...], dtype: DType) -> Value:
        """A function of values; the result is a vector if one of them is."""
        vector = any(o.vector for o in operands)
        if function == "select":
            return self.select(operands, vector)
        own = operands[0].dtype
        if function in _BY_NUMBER and own == F32 and vector and not operands[1].vector:
            a, b = operands
            return Value(
                self.prelude.call(_BY_NUMBER[function], F32, self.count, a.text, b.text), own, vector
            )
        texts = tuple(operand(self.vectorized(o) if vector else o.text) for o in operands)
        if own == BOOL:
            return Value(self.logic(function, texts, vector), dtype, vector)
        plain = own.computed
        if function in COMPARISONS:
            text = f"({texts[0]} {COMPARISONS[function]} {texts[1]})"
            return Value(self.as_mask(text, plain) if vector else text, BOOL, vector)
        if function in ("isnan", "isinf"):
            return self.classify(function, texts[0], plain, vector)
        return self.rounded(Value(self.arithmetic(function, texts, plain, vector), own, vector))

    def arithmetic(self, function: str, texts: tuple[str, ...], dtype: DType, vector: bool) -> str:
        """A function of numbers, which are all vectors or all scalars."""
        operator = None if function == "div" and dtype.is_integer else _OPERATORS.get(function)
        if operator is not None:
            text = operator.format(*texts)
            is_promoted = dtype.is_integer and dtype.bits < 32 and not vector  # to int, by C
            return f"(({C_TYPES[dtype.name]}){text})" if is_promoted else text
        if vector:
            return self.prelude.call(function, dtype, self.count, *texts)
        return f"{self.prelude.scalar(function, dtype)}({', '.join(texts)})"

    def select(self, operands: tuple[Value, ...], vector: bool) -> Value:
        """``yes`` where the condition holds, else ``no``."""
        condition, yes, no = operands
        if not vector:
            return Value(f"({condition.text} ? {yes.text} : {no.text})", yes.dtype)
        if not condition.vector:  # one branch for all lanes
            return Value(
                f"({condition.text} ? {self.vectorized(yes)} : {self.vectorized(no)})", yes.dtype, vector=True
            )
        texts = (condition.text, self.vectorized(yes), self.vectorized(no))
        return Value(
            self.prelude.call("select", lane_dtype(yes.dtype), self.count, *texts), yes.dtype, vector=True
        )

    def logic(self, function: str, texts: tuple[str, ...], vector: bool) -> str:
        """A function of bools. Raises ToolchainError for a function that bools do not have."""
        invert = "~" if vector else "!"
        a, b = texts[0], texts[-1]
        if function == "not":
            return f"({invert}{a})"
        if function in _BOOL_MEANING:
            return _BOOL_MEANING[function].format(a=a, b=b)
        if function in _BOOL_NEGATED:
            return f"({invert}{_BOOL_NEGATED[function].format(a=a, b=b).replace('NOT ', invert)})"
        raise ToolchainError(Diagnostic("emit-function", f"no C code for {function} of bool"))

    def classify(self, function: str, text: str, dtype: DType, vector: bool) -> Value:
        """``isnan`` or ``isinf``."""
        if not dtype.is_float:
            return Value("0", BOOL)
        if vector:
            size = self.prelude.call("abs", dtype, self.count, text)
            limit = self.prelude.call("splat", dtype, self.count, literal(float("inf"), dtype))
            found = f"({text} != {text})" if function == "isnan" else f"({size} == {limit})"
            return Value(self.as_mask(found, dtype), BOOL, vector=True)
        size = f"{self.prelude.scalar('abs', dtype)}({text})"
        found = (
            f"({text} != {text})" if function == "isnan" else f"({size} == {literal(float('inf'), dtype)})"
        )
        return Value(found, BOOL)

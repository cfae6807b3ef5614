"""Base class of elementwise ops."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import ClassVar

from graphwright.ir.op import Fact, Inference, Op, Trait
from graphwright.ir.symbols import Dim
from graphwright.ir.types import DType, TensorType
from graphwright.ops.core.checks import FLOATS, need_dtype, same_dtype
from graphwright.ops.core.known_elements import elementwise_fact, known_size, size_fact


@cache
def _operand_count(expression: Callable[..., object]) -> int | None:
    """The number of operands of a method ``expression``; None if it takes any number."""
    parameters = list(inspect.signature(expression).parameters.values())[1:]
    is_variadic = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    return None if is_variadic else len(parameters)


class Pointwise(Op):
    """Base class of elementwise ops whose operands have one dtype and are broadcast."""

    traits = Trait.ELEMENTWISE
    dtypes: ClassVar[frozenset[DType]] = FLOATS
    """The dtypes of operands; others are an error."""
    gives: ClassVar[DType | None] = None
    """The dtype of the output; None if it is that of the operands."""

    def infer(self, at: Inference, *operands: Fact) -> TensorType | Fact:
        needed = _operand_count(self.__class__.expression)
        if needed is not None and len(operands) != needed:
            raise at.fail(f"{needed} operands are needed, {len(operands)} are given")
        dtype = same_dtype(at, *operands)
        need_dtype(at, operands[0], self.dtypes, "the operand")
        if len(operands) == 1:
            shape = operands[0].type.shape
        else:
            shape = at.broadcast(*(operand.shape for operand in operands))
        type = TensorType(self.gives or dtype, shape)
        if not dtype.is_float:
            return elementwise_fact(type, operands, partial(self.known, at))
        if shape is None or known_size(shape) is None:
            return type
        sizes = [size_fact(at.symbols, operand) for operand in operands]
        return elementwise_fact(type, sizes, partial(self.known_real, at))

    def known(self, at: Inference, *elements: Dim) -> Dim | None:
        """Computes an integer or bool output element, as a dim, from the elements of the operands, which may
        be symbolic. None if it is unknown.
        """
        return None

    def known_real(self, at: Inference, *elements: Dim) -> Dim | None:
        """The same for float operands whose elements are integers >= 0. Models convert sizes to floats to
        scale them.
        """
        return None

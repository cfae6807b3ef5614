"""The facts about values from which ops infer types, and the requirements and assumptions that they can
make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeGuard

import numpy as np

from graphwright.ir.symbols import Dim, Expr, SymbolTable, floordiv, one_together
from graphwright.ir.types import DType, TensorType
from graphwright.records import dataclass

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Fact:
    """The facts that inference knows about a value: its type and, if known, its elements."""

    type: TensorType
    elements: tuple[Dim, ...] | None = None
    """All elements of a small integer tensor, row-major: numbers or symbolic sizes. A float tensor has
    elements if all of them are integers >= 0, such as sizes before they are scaled.
    """
    data: Array | None = None
    """The array of a constant of any dtype and size."""
    item_types: tuple[TensorType, ...] | None = None
    """The types of the tensors in a sequence, in order."""
    partial_elements: tuple[Dim | None, ...] | None = None
    """The elements if only some are known; None for each other one."""

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def knows_elements(self) -> bool:
        """Whether more than the type is known."""
        known = (self.elements, self.data, self.item_types, self.partial_elements)
        return any(each is not None for each in known)

    def with_type(self, type: TensorType) -> Fact:
        """The same facts about a value of ``type``."""
        return Fact(type, self.elements, self.data, self.item_types, self.partial_elements)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape. Raises :class:`UnknownRank` if it is unknown, which makes the outputs of the op unknown
        too.
        """
        return self.type.dims

    @property
    def rank(self) -> int:
        return len(self.shape)


class InferError(Exception):
    """Raised inside ``infer`` or ``verify`` for invalid types. The caller adds node and source."""

    code = "type"


class DtypeError(InferError):
    """An operand has a dtype that the op does not take, or operands have different dtypes."""

    code = "dtype"


class Inference:
    """The argument of ``infer``, through which an op requires and assumes relations between sizes.

    There is one object per node. For ops with regions, it also has the facts of the inputs of the node and of
    each region.
    """

    def __init__(
        self,
        symbols: SymbolTable,
        node: str,
        inputs: Sequence[Fact | None] = (),
        received: Sequence[Sequence[Fact]] = (),
    ) -> None:
        self.symbols = symbols
        self.node = node
        self.inputs = inputs
        self.received = received

    def fail(self, message: str, error: type[InferError] = InferError) -> InferError:
        """The exception for ``raise at.fail("...")``. The message states the error with sizes; the caller
        adds the node.
        """
        return error(message)

    def equal(self, a: Dim, b: Dim, what: str) -> Dim:
        """Requires ``a == b``: it is proved, becomes a constraint, or raises InferError. Returns the more
        precise one.
        """
        if self.symbols.proves_equal(a, b):
            return a
        if self.symbols.refutes_equal(a, b):
            raise InferError(f"{what}: {a} and {b} differ")
        self.symbols.demand("==", a, b, self.node)
        return b if isinstance(b, int) else a

    def at_least(self, dim: Dim, bound: int, what: str) -> None:
        """Requires ``dim >= bound``: it is proved, becomes a constraint, or raises InferError."""
        self.require_at_least(dim, bound, f"{what}: {dim} is less than {bound}")

    def at_most(self, dim: Dim, limit: Dim, what: str) -> None:
        """Requires ``dim <= limit``, as :meth:`at_least` does."""
        self.require_at_least(limit - dim, 0, f"{what}: {dim} is more than {limit}")

    def require_at_least(self, dim: Dim, bound: int, message: str) -> None:
        """As :meth:`at_least`, with the whole message of the error."""
        if isinstance(dim, int) and dim >= bound:
            return
        high = self.symbols.range_of(dim).high
        if high is not None and high < bound:
            raise InferError(message)
        if not self.symbols.proves_at_least(dim, bound):
            self.symbols.demand("<=", bound, dim, self.node)

    def divide(self, dim: Dim, divisor: Dim, what: str) -> Dim:
        """``dim / divisor``. Requires that nothing remains, as :meth:`equal` does."""
        quotient = floordiv(dim, divisor)
        if self.symbols.refutes_equal(quotient * divisor, dim):
            raise InferError(f"{what}: {dim} is not a multiple of {divisor}")
        self.equal(quotient * divisor, dim, what)
        return quotient

    def assumes(self, relation: str, left: Dim, right: Dim) -> bool:
        """Assumes ``left relation right``, as a guard of this version of the module. Returns whether the
        assumption is allowed.

        Shapes that violate a guard are compiled separately, with the opposite relation. An op should assume
        what is likely; if it may not, it must leave the result open.
        """
        return self.symbols.assume(relation, left, right, self.node)

    def require_broadcast(self, have: Dim, want: Dim, what: str) -> None:
        """Requires that an axis of size ``have`` broadcasts to ``want``: equal sizes, or 1."""
        if have == 1 or self.symbols.proves_equal(have, want):
            return
        if isinstance(have, int) or want == 1 or self.symbols.refutes_equal(have, want):
            self.equal(have, want if isinstance(have, int) else 1, what)  # only one case is possible
        elif one_together(have, want):
            self.equal(have, want, what)
        else:
            self.likely_equal(have, 1 if self._is_at_most_one(have) else want, what)

    def likely_equal(self, a: Dim, b: Dim, what: str) -> None:
        """Assumes ``a == b`` if the result type does not depend on it. Require it if the assumption is not
        allowed.
        """
        if self.symbols.proves_equal(a, b) or self.assumes("==", a, b) or self.symbols.is_general:
            return
        self.equal(a, b, what)

    def differs(self, dim: Dim, number: int) -> bool:
        """Whether ``dim != number`` is proved or assumed."""
        symbols = self.symbols
        if isinstance(dim, int) or symbols.refutes_equal(dim, number):
            return dim != number
        return not symbols.proves_equal(dim, number) and self.assumes("!=", dim, number)

    def not_less(self, dim: Dim, bound: int) -> bool:
        """Whether ``dim >= bound`` is proved or assumed."""
        return self.symbols.proves_at_least(dim, bound) or self.assumes("<=", bound, dim)

    def broadcast(self, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The NumPy broadcast of ``shapes``."""
        rank = max(map(len, shapes))
        result: list[Dim] = []
        for axis in range(-rank, 0):
            dim: Dim = 1
            for shape in shapes:
                if -axis <= len(shape):
                    dim = self.broadcast_dim(dim, shape[axis], f"axis {axis} of a broadcast")
            result.append(dim)
        return tuple(result)

    def broadcast_dim(self, a: Dim, b: Dim, what: str) -> Dim:
        """The broadcast size of ``a`` and ``b``, which must be equal, or one of them 1.

        If neither is known, the sizes are assumed to be equal, and a size of at most 1 to be 1.
        """
        if a == 1 or b == 1:
            return b if a == 1 else a
        if self.symbols.proves_equal(a, b):
            return b if isinstance(b, int) else a
        if isinstance(a, int) and isinstance(b, int):
            raise InferError(f"{what}: {a} and {b} differ")
        if isinstance(a, int) or isinstance(b, int):
            known, open_ = (a, b) if isinstance(a, int) else (b, a)
            if not self.symbols.refutes_equal(known, open_):
                decided = self.assumes("==", open_, known) or self.symbols.is_general
                return known if decided else self.symbols.fresh_for_host("broadcast")
            self.equal(open_, 1, what)
            return known
        if one_together(a, b):
            return self.equal(a, b, what)
        if self._is_at_most_one(b):
            a, b = b, a
        kept, likely = (b, 1) if self._is_at_most_one(a) else (a, b)
        return kept if self.assumes("==", a, likely) else self.symbols.fresh("broadcast")

    def _is_at_most_one(self, dim: Dim) -> bool:
        """Whether ``dim`` is 1 or 0, such as the size ``min(1, N)`` of the slice ``[-1:]``."""
        return self.symbols.range_of(dim).high == 1

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front. Raises InferError outside ``[-rank, rank)``; a scalar has one
        axis, as in PyTorch.
        """
        counted = max(rank, 1)
        if not -counted <= axis < counted:
            raise InferError(f"axis {axis} is out of range for rank {rank}")
        return axis % counted


_MOST_ELEMENTS: Final = 256
"""The most elements of an array that a fact lists."""


def facts_elements(array: Array) -> tuple[Dim, ...] | None:
    """The elements of a small integer or bool array, for a :class:`Fact`; None for other arrays."""
    if isinstance(array, list | dict) or array.dtype.kind not in "iub" or array.size > _MOST_ELEMENTS:
        return None
    return tuple(map(int, array.ravel().tolist()))


def is_known(elements: tuple[Dim, ...] | None) -> TypeGuard[tuple[int, ...]]:
    """Whether all elements are known numbers."""
    return elements is not None and not any(isinstance(e, Expr) for e in elements)

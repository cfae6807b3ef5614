"""What ops know of values when they infer types, and what they may ask and assume about sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.symbols import Dim, Expr, SymbolTable
from graphwright.ir.types import DType, TensorType
from graphwright.records import dataclass

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Fact:
    """What inference knows of a value: its type and, for small tensors of integers, its elements (ints or
    symbolic sizes).

    A float tensor has elements only where all of them are integers >= 0: sizes on their way to be scaled.

    ``elements`` is row-major and complete; ``data`` is the array where the value is a constant of any dtype
    and size. ``held`` are the types of the tensors in a sequence, in their order. ``partly`` are the elements
    where some of them, but not all, are known: None stands for the others.
    """

    type: TensorType
    elements: tuple[Dim, ...] | None = None
    data: Array | None = None
    held: tuple[TensorType, ...] | None = None
    partly: tuple[Dim | None, ...] | None = None

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape; raises :class:`UnknownRank` where it is not known, which makes the op's outputs unknown
        as well.
        """
        if self.type.shape is None:
            raise UnknownRank
        return self.type.shape

    @property
    def rank(self) -> int:
        return len(self.shape)


class UnknownRank(Exception):
    """Raised inside ``infer`` when a rank that it needs is not known; the caller gives every output an
    unknown rank.
    """


class InferError(Exception):
    """Raised inside ``infer`` or ``verify``: types that cannot be right. The caller adds node and source."""


class Inference:
    """What ``infer`` may ask and assume about sizes; one per node.

    For ops with regions also what is known of the node's own inputs, and of each region's inputs inside it.
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

    def fail(self, message: str) -> InferError:
        """``raise at.fail("...")``: the message says what is wrong, with sizes; the place is added."""
        return InferError(message)

    def equal(self, a: Dim, b: Dim, what: str) -> Dim:
        """Demand ``a == b``: proved, or a constraint, or refused. Returns the better known of the two."""
        if self.symbols.proves_equal(a, b):
            return a
        if self.symbols.refutes_equal(a, b):
            raise InferError(f"{what}: {a} and {b} differ")
        self.symbols.demand("==", a, b, self.node)
        return b if isinstance(b, int) else a

    def at_least(self, dim: Dim, bound: int, what: str) -> None:
        """Demand ``dim >= bound``: proved, or a constraint, or refused."""
        if isinstance(dim, int) and dim >= bound:
            return
        high = self.symbols.range_of(dim).high
        if high is not None and high < bound:
            raise InferError(f"{what}: {dim} is less than {bound}")
        if not self.symbols.proves_at_least(dim, bound):
            self.symbols.demand("<=", bound, dim, self.node)

    def assumes(self, relation: str, left: Dim, right: Dim) -> bool:
        """Whether this form of the module may rest on ``left relation right``, which then guards it.

        Shapes that break a guard get a form of their own, in which the other case is known; so an op assumes
        what is likely, and leaves open what it may not assume.
        """
        return self.symbols.assume(relation, left, right, self.node)

    def spread(self, have: Dim, want: Dim, what: str) -> None:
        """Demand that an axis of ``have`` elements broadcasts to ``want``: it has as many, or 1."""
        if have == 1 or self.symbols.proves_equal(have, want):
            return
        if isinstance(have, int) or want == 1 or self.symbols.refutes_equal(have, want):
            self.equal(have, want if isinstance(have, int) else 1, what)  # there is no other case to assume
        else:
            self.likely_equal(have, want, what)

    def likely_equal(self, a: Dim, b: Dim, what: str) -> None:
        """Assume ``a == b`` where the type does not show it: demanded where it may not be assumed, as no host
        node can decide it.
        """
        if (
            not self.symbols.proves_equal(a, b)
            and not self.assumes("==", a, b)
            and not self.symbols.is_general
        ):
            self.equal(a, b, what)

    def differs(self, dim: Dim, number: int) -> bool:
        """Whether ``dim`` is not ``number``: proved, or assumed."""
        symbols = self.symbols
        if isinstance(dim, int) or symbols.refutes_equal(dim, number):
            return dim != number
        return not symbols.proves_equal(dim, number) and self.assumes("!=", dim, number)

    def not_less(self, dim: Dim, bound: int) -> bool:
        """Whether ``dim >= bound``: proved, or assumed."""
        return self.symbols.proves_at_least(dim, bound) or self.assumes("<=", bound, dim)

    def broadcast(self, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The NumPy broadcast of ``shapes``."""
        rank = max(map(len, shapes))
        result: list[Dim] = []
        for axis in range(-rank, 0):
            dim: Dim = 1
            for shape in shapes:
                if -axis <= len(shape):
                    dim = self.meet(dim, shape[axis], f"axis {axis} of a broadcast")
            result.append(dim)
        return tuple(result)

    def meet(self, a: Dim, b: Dim, what: str) -> Dim:
        """The size of an axis along which ``a`` and ``b`` elements broadcast: equal sizes, or one of them 1.

        Which of it is the case is assumed where it is not known: that the sizes are equal.
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
        return a if self.assumes("==", a, b) else self.symbols.fresh("broadcast")

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front; refuses one outside ``[-rank, rank)``."""
        if not -rank <= axis < max(rank, 1):
            raise InferError(f"axis {axis} is outside a rank of {rank}")
        return axis % max(rank, 1)


def facts_elements(array: Array, limit: int = 256) -> tuple[Dim, ...] | None:
    """The elements of a small integer or bool array, for a :class:`Fact`."""
    if isinstance(array, list | dict) or array.dtype.kind not in "iub" or array.size > limit:
        return None
    return tuple(map(int, array.ravel().tolist()))


def is_known(elements: tuple[Dim, ...] | None) -> bool:
    """Whether all elements are numbers."""
    return elements is not None and not any(isinstance(e, Expr) for e in elements)

"""What an op tells that makes sizes out of its operands' elements."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.types import TensorType


class BoundedForm:
    """Interface of ops with results whose sizes depend on elements, but have a bound that does not. They
    define its method.
    """

    __slots__ = ()

    def bounded_form(self, b: Builder, gives: Sequence[TensorType], made: Set[str], *inputs: Any) -> Any:
        """The same meaning (a Value or a tuple), values of the types ``gives``, with the sizes ``made``
        decided by :class:`graphwright.ops.control.bind_size.BindSize` alone; None where there is no bound on
        what is written before a size is known, or it is too large.
        """
        raise NotImplementedError(f"{type(self).__name__} is a BoundedForm without bounded_form")

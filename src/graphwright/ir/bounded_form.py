"""Interface of ops that produce data-dependent sizes with a static bound."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.types import TensorType


class BoundedForm:
    """Interface of ops whose results have data-dependent sizes with an upper bound that
    follows from shapes.
    """

    __slots__ = ()

    def bounded_form(self, b: Builder, gives: Sequence[TensorType], made: Set[str], *inputs: Any) -> Any:
        """An equivalent (a Value or a tuple) with results of the types ``gives``, in which only a
        :class:`graphwright.ops.control.bind_size.BindSize` defines the sizes ``made``; None if what is
        written before a size is known has no bound, or one that is too large.
        """
        raise NotImplementedError(f"{type(self).__name__} implements BoundedForm without bounded_form")

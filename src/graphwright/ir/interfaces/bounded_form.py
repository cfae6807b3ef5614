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

    def bounded_form(self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Any) -> Any:
        """Equivalent nodes with results of the types ``gives`` (a Value or a tuple), in which only
        :class:`graphwright.ops.core.bind_size.BindSize` nodes define the data-dependent sizes ``defined``.

        None if such a node needs a buffer whose size has no bound, or too large a bound: it is written before
        the size is known.
        """
        raise NotImplementedError(f"{type(self).__name__} implements BoundedForm without bounded_form")

"""Hints about fusion in the code of a module: a block whose operators make one kernel."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any

import torch
from torch.fx import traceback

from graphwright.ir.hints import KEY


def fuse(group: str) -> AbstractContextManager[Any]:
    """A context manager: the operators that are called in the block make one kernel, with those of other
    blocks of the same ``group``, and no others are in it; ``never`` keeps each of them alone.

    It is noted in the graphs that ``torch.compile`` and ``torch.export`` capture (``node.meta["custom"]``),
    and changes nothing in eager mode. Raises ValueError for an empty group.
    """
    if not isinstance(group, str) or not group:
        raise ValueError(f"a group is a name, or never; not {group!r}")
    if torch.compiler.is_dynamo_compiling():
        return traceback.annotate({KEY: group})  # which dynamo knows
    return _Annotated(group)


class _Annotated(AbstractContextManager[None]):
    """Notes the hint in graphs that are traced by running the module, as ``torch.export`` does."""

    def __init__(self, group: str) -> None:
        self._group, self._held = group, ExitStack()

    def __enter__(self) -> None:
        self._held.enter_context(traceback.preserve_node_meta())
        self._held.enter_context(traceback.annotate({KEY: self._group}))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.__exit__(kind, error, trace)

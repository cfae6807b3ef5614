"""Fusion hints in the code of a module: a ``with`` block whose operators form one kernel."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any

import torch
from torch.fx import traceback

from graphwright.ir.hints import KEY


def fuse(group: str) -> AbstractContextManager[Any]:
    """A context manager: the operators called in the block form one kernel, together with those of other
    blocks with the same ``group``, and without others. ``never`` gives each operator a kernel of its own.

    The hint is recorded in the graphs that ``torch.compile`` and ``torch.export`` capture
    (``node.meta["custom"]``). It has no effect in eager mode. Raises ValueError for an empty group.
    """
    if not isinstance(group, str) or not group:
        raise ValueError(f"a group is a name, or never; not {group!r}")
    if torch.compiler.is_dynamo_compiling():
        return traceback.annotate({KEY: group})  # dynamo supports this context manager
    return _Annotated(group)


class _Annotated(AbstractContextManager[None]):
    """Records the hint in graphs that are traced by running the module, as in ``torch.export``."""

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

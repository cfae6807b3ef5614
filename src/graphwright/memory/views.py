"""Views: values that share the memory of another value, and which values may be written over which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from graphwright.ir.graph import Value
from graphwright.ir.symbols import Dim
from graphwright.kernels.launch import Alias, Copy, NativeLoop, Run, SelectedNode
from graphwright.kernels.steps import all_steps, shareable, step_values


class Views:
    """The views that steps make: results that are bytes of an operand."""

    def __init__(self, steps: Sequence[SelectedNode]) -> None:
        self._sources = {
            step.node.outputs[0]: (step.action.source, step.action.offset)
            for step in all_steps(steps)
            if isinstance(step.action, Alias)
        }
        self._by_root: dict[Value, list[Value]] = defaultdict(list)
        for view in self._sources:
            self._by_root[self.root(view)[0]].append(view)

    def of(self, root: Value) -> Sequence[Value]:
        """All views of ``root``, also views of views."""
        return self._by_root.get(root, ())

    def root(self, value: Value) -> tuple[Value, Dim]:
        """The value whose memory ``value`` is a view of, and the byte offset in it."""
        offset: Dim = 0
        while value in self._sources:
            value, step_offset = self._sources[value]
            offset = offset + step_offset
        return value, offset


def can_overwrite(steps: Sequence[SelectedNode], old: Value, new: Value, views: Views) -> bool:
    """Whether ``new`` may be written over ``old``: all readers of ``old`` among ``steps`` come before the
    step that makes ``new``, or that step is the last reader and works in place.
    """
    maker = next(k for k, step in enumerate(steps) if step.node is new.producer)
    readers = [k for k, step in enumerate(steps) if _reads(step, old, views)]
    step = steps[maker]
    if isinstance(step.action, Run) and step.action.slots:  # earlier steps write its slots
        return not readers
    return all(k < maker for k in readers if k != maker) and (
        maker not in readers or _replaces(step, old, new, views)
    )


def _reads(step: SelectedNode, root: Value, views: Views) -> bool:
    return not isinstance(step.action, Alias) and any(views.root(v)[0] is root for v in step_values(step))


def _replaces(step: SelectedNode, old: Value, new: Value, views: Views) -> bool:
    """Whether a step may write ``new`` over ``old``, which it reads: in place, or as a loop that carries
    it.
    """
    read = [value for value in step_values(step) if views.root(value)[0] is old]
    if len(read) > 1 or views.root(read[0])[1] != 0 or read[0].bytes != new.bytes:
        return False
    if isinstance(step.action, NativeLoop):
        return any(each.start is read[0] and each.output is new for each in step.action.carried)
    if not isinstance(step.action, Run):
        return False
    return any(
        (output, source) == (new, read[0])
        for launch, output, source in shareable(step.action)
        if isinstance(launch, Copy) or len(step.action.launches) == 1
    )

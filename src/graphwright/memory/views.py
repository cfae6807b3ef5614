"""Views: values that share the memory of another value, and which values may be written over which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from graphwright.ir.graph import Value
from graphwright.ir.symbols import Dim
from graphwright.kernels.launch import Alias, NativeLoop, Run, SelectedNode
from graphwright.kernels.steps import all_steps, launch_values, shareable, step_values, written_values


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
    """Whether ``new`` may be written over ``old``, which is not a view: all readers of ``old`` among
    ``steps`` come before the step that makes ``new``, or that step is the last reader and works in place.
    """
    maker = next(k for k, step in enumerate(steps) if step.node is new.producer)
    readers = [k for k, step in enumerate(steps) if _reads(step, old, views)]
    step = steps[maker]
    if isinstance(step.action, Run) and step.action.slots:  # earlier steps write its slots
        return not readers
    return all(k < maker for k in readers if k != maker) and (
        maker not in readers or _is_in_place(step, old, new, views)
    )


def _reads(step: SelectedNode, root: Value, views: Views) -> bool:
    return not isinstance(step.action, Alias) and any(views.root(v)[0] is root for v in step_values(step))


def _is_in_place(step: SelectedNode, old: Value, new: Value, views: Views) -> bool:
    """Whether a step may write ``new`` over ``old``, which it reads: in place, or as a loop that carries
    it.
    """
    if old.bytes != new.bytes:
        return False
    if isinstance(step.action, Run):
        return run_overwrites((old, *views.of(old)), new, step.action)
    read = [value for value in step_values(step) if views.root(value)[0] is old]
    return isinstance(step.action, NativeLoop) and any(
        each.output is new and read == [each.start] and each.start.bytes == new.bytes
        for each in step.action.carried
    )


def run_overwrites(old: Collection[Value], new: Value, run: Run) -> bool:
    """Whether ``run`` may write ``new`` over ``old``, a value and its views: from the first launch that
    writes ``new`` on, also in those for other sizes, each launch reads ``old`` at most once, and in place.
    """
    in_place = [
        launch
        for launch, output, source in shareable(run)
        if output is new and source in old and source.bytes == new.bytes
    ]
    is_written = False
    for launch in run.launches:
        is_written = is_written or new in written_values(launch)
        reads = sum(value in old for value in launch_values(launch))
        if is_written and reads > any(launch is each for each in in_place):
            return False
    return True

"""Shows the progress of a compilation: its stages on a terminal, and texts and times on request."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from graphwright.ir.graph import Module
from graphwright.ir.text import print_module
from graphwright.passes.after_stage import AfterStage
from graphwright.records import dataclass, field
from graphwright.tools.console import note, progress_bar, say, table

if TYPE_CHECKING:
    from graphwright.compiler.run_passes import Observer


_PHASES: Final = (
    ("import", "reading the model"),
    ("assign_layouts", "passes over the graph"),
    ("select", "selecting kernels"),
    ("lower", "packing weights, planning memory"),
    ("kernels", "compiling kernels"),
)
"""The phases of the progress bar: the stage that ends each phase, and its text."""


TUNE: Final = "tune"
"""The stage of :mod:`graphwright.compiler.tuning`, whose products are texts."""
_TUNE_DONE: Final = 2


@contextmanager
def stages(timer: StageTimer) -> Iterator[Observer]:
    """An observer of ``graphwright.compile`` that shows a bar on stderr if this is a terminal."""
    if timer.shown:  # texts and a bar would be mixed
        yield timer
        return
    with progress_bar(len(_PHASES)) as update:
        ends = {stage: number for number, (stage, _) in enumerate(_PHASES, 1)}
        programs = 0
        update(_PHASES[0][1], 0)

        def observe(name: str, product: object) -> None:
            nonlocal programs
            timer(name, product)
            if name == TUNE:
                update(str(product), _TUNE_DONE)
                return
            programs += name == "kernels"
            done = ends.get(name, 1)  # a pass belongs to the second phase, also for another program
            text = _PHASES[min(done, len(_PHASES) - 1)][1]
            update(f"{text} (programs done: {programs})" if programs else text, done)

        yield observe


@dataclass
class StageTimer:
    """Observes a compilation: the time of each stage, and the module's text after the passes in ``shown``."""

    shown: Sequence[str] = ()
    """Names of passes; ``*`` stands for all."""
    laps: list[tuple[str, float, int | None]] = field(default_factory=list)
    """The stage, its seconds, and the nodes of the module after it."""
    _last: float = field(default_factory=time.perf_counter)

    def __call__(self, name: str, product: object) -> None:
        if isinstance(product, AfterStage):  # its passes were recorded already
            return
        seconds = time.perf_counter() - self._last
        nodes = sum(1 for _ in product.walk()) if isinstance(product, Module) else None
        self.laps.append((name, seconds, nodes))
        if isinstance(product, Module) and ("*" in self.shown or name in self.shown):
            say(f"// after {name}")
            say(print_module(product, constants="short"))
        self._last = time.perf_counter()

    def report_times(self) -> None:
        """A table of stages, in order; passes that ran several times are several rows."""
        rows = [
            [name, f"{seconds * 1e3:.1f} ms", "" if nodes is None else f"{nodes} nodes"]
            for name, seconds, nodes in self.laps
        ]
        total = sum(seconds for _, seconds, _ in self.laps)
        table([*rows, ["all", f"{total * 1e3:.1f} ms", ""]], ["stage", "time", "graph after it"])

    def warn_unknown(self) -> None:
        """Warns about passes to show that never ran."""
        ran = {name for name, _, nodes in self.laps if nodes is not None}
        for name in self.shown:
            if name != "*" and name not in ran:
                note(f"warning: no pass {name!r} ran; those that did: {', '.join(sorted(ran))}")

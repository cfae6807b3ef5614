"""What a compilation shows while it runs: its stages on a terminal, texts and times on request."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphwright.ir.graph import Module
from graphwright.ir.text import print_module
from graphwright.records import dataclass, field
from graphwright.tools.console import note, progress, say, table

if TYPE_CHECKING:
    from graphwright.compiler import Observer


@contextmanager
def stages(watch: Watch) -> Iterator[Observer]:
    """An observer of ``graphwright.compile`` that names the stage on stderr where that is a terminal."""
    if watch.shown:  # texts and a spinner would mix
        yield watch
        return
    with progress("compiling") as update:

        def observe(name: str, product: object) -> None:
            watch(name, product)
            update(f"compiling: after {name}")

        yield observe


@dataclass
class Watch:
    """Observes a compilation: the time of each stage, and the module's text after the passes in ``shown``."""

    shown: Sequence[str] = ()
    """Names of passes; ``*`` stands for all."""
    laps: list[tuple[str, float, int | None]] = field(default_factory=list)
    """Stage, seconds, nodes of the module after it."""
    _last: float = field(default_factory=time.perf_counter)

    def __call__(self, name: str, product: object) -> None:
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
        """Say which of the passes to show never ran."""
        ran = {name for name, _, nodes in self.laps if nodes is not None}
        for name in self.shown:
            if name != "*" and name not in ran:
                note(f"warning: no pass {name!r} ran; those that did: {', '.join(sorted(ran))}")

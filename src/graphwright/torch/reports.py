"""Reports about the graphs that PyTorch captured."""

from __future__ import annotations

import operator
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self, overload

from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

from graphwright.errors import Diagnostic, ModelError
from graphwright.frontends.torch.source_lines import user_line
from graphwright.log import warn_once
from graphwright.records import dataclass
from graphwright.support.fork_lock import ForkLock
from graphwright.support.message_text import counted
from graphwright.torch.captured import backend_of, graph_names

MOST_GRAPHS: Final = 10_000
"""The most graphs that are kept; the oldest is dropped."""
_LOCK: Final = ForkLock()
"""Held while counts change: threads compile parts of one graph at the same time."""


@dataclass(frozen=True)
class Missing:
    """The calls of an operator that PyTorch has to run. ``lines`` are lines of the user's source, as far as
    known.
    """

    operator: str
    reason: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        lines = f" ({', '.join(self.lines)})" if self.lines else ""
        return f"{self.operator}: {self.reason}{lines}"


@dataclass(frozen=True)
class Break:
    """A graph break: the reason why a graph ends before its function, and the ``line`` of the user's source,
    if known.
    """

    reason: str
    line: str

    def __str__(self) -> str:
        return f"{self.line or 'an unknown line'}: {self.reason}"

    @classmethod
    def of(cls, graph: fx.GraphModule) -> Self | None:
        """The break at the end of a graph that dynamo passes to a backend; None if the function ends with the
        graph.
        """
        why: Any = getattr(graph, "compile_subgraph_reason", None)
        if why is None or not why.graph_break:
            return None
        lines = [f"{frame.filename}:{frame.lineno}" for frame in why.user_stack]
        return cls(str(why.reason).partition("\n")[0], lines[-1] if lines else "")


@dataclass
class GraphReport:
    """The report about one graph: its kind, the calls that PyTorch runs, and the time of its compilation."""

    kind: str
    """``inference``, ``forward`` or ``backward``."""
    calls: int
    """The number of operators in the graph."""
    missing: tuple[Missing, ...]
    broken: Break | None = None
    parts: int = 1
    """The number of subgraphs that graphwright compiles: 1 if it compiles the whole graph."""
    seconds: float = 0.0
    """The time of graphwright in seconds: reading, compiling, packing parameters."""
    compilations: int = 0
    """The number of programs that were made: one for each part at its first call, and more for changed
    parameters.
    """
    cached: int = 0
    """The number of these programs that came from the cache."""
    miss: str = ""
    """The reason for the last cache miss."""
    _open: int = 0
    """The number of threads that compile programs of this graph."""
    _since: float = 0.0
    """When the first of these threads began."""

    @classmethod
    def of(
        cls, kind: str, graph: fx.Graph, missing: Mapping[fx.Node, str], broken: Break | None = None
    ) -> Self:
        """The report of ``graph``, in which PyTorch runs the nodes ``missing`` for these reasons."""
        lines: dict[tuple[str, str], list[str]] = {}
        for node, reason in missing.items():
            if node.op == "placeholder":
                continue  # the operators that read this argument are listed
            if node.target is operator.getitem and node.args[0] in missing:
                continue  # one result of a call, which is listed itself
            lines.setdefault((_operator(node), reason), []).extend(user_line(node))
        found = tuple(Missing(*key, tuple(dict.fromkeys(where))) for key, where in lines.items())
        return cls(kind, sum(node.op == "call_function" for node in graph.nodes), found, broken)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Counts a program and the time of a ``with`` block. Time in which several threads compile programs
        of the graph counts once.
        """
        with _LOCK:
            self.compilations += 1
            self._open += 1
            if self._open == 1:
                self._since = time.perf_counter()
        try:
            yield
        finally:
            with _LOCK:
                self._open -= 1
                if not self._open:
                    self.seconds += time.perf_counter() - self._since

    def count_cached(self) -> None:
        """Counts a program that came from the cache."""
        with _LOCK:
            self.cached += 1

    def __str__(self) -> str:
        parts = "" if self.parts == 1 else f" in {self.parts} parts"
        cached = (
            f", {self.cached} of {self.compilations} programs from the cache" if self.compilations else ""
        )
        cached += f" ({self.miss})" if self.miss else ""
        calls = counted(self.calls, "operator")
        lines = [f"{self.kind} graph: {calls}{parts}, {self.seconds:.2f} s to compile{cached}"]
        lines += [f"  PyTorch runs {each}" for each in self.missing]
        lines += [f"  graph break at {self.broken}"] if self.broken else []
        return "\n".join(lines)


@dataclass(frozen=True)
class Report(Sequence[GraphReport]):
    """The reports of graphs, in the order of capture."""

    graphs: tuple[GraphReport, ...]

    @property
    def breaks(self) -> tuple[Break, ...]:
        """The graph breaks; each side of a break is a graph of its own."""
        return tuple(graph.broken for graph in self.graphs if graph.broken is not None)

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The operators that PyTorch runs, each once, with all lines."""
        lines: dict[tuple[str, str], list[str]] = {}
        for each in (each for graph in self.graphs for each in graph.missing):
            lines.setdefault((each.operator, each.reason), []).extend(each.lines)
        return tuple(Missing(*key, tuple(dict.fromkeys(where))) for key, where in lines.items())

    @property
    def seconds(self) -> float:
        """The total compile time of graphwright in seconds."""
        return sum(graph.seconds for graph in self.graphs)

    @property
    def cached(self) -> int:
        """The number of programs that came from the cache."""
        return sum(graph.cached for graph in self.graphs)

    @overload
    def __getitem__(self, index: int) -> GraphReport: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[GraphReport, ...]: ...
    def __getitem__(self, index: int | slice) -> GraphReport | tuple[GraphReport, ...]:
        return self.graphs[index]

    def __len__(self) -> int:
        return len(self.graphs)

    def __str__(self) -> str:
        head = (
            f"{counted(len(self.graphs), 'graph')}, {counted(len(self.breaks), 'graph break')}, "
            f"{counted(len(self.missing), 'operator')} left to PyTorch, {self.seconds:.2f} s to compile"
        )
        return "\n".join([head, *map(str, self.graphs)])


@dataclass(frozen=True)
class _Captured:
    """A graph with its name in dynamo, and the backend that it was captured for."""

    report: GraphReport
    name: str
    backend: weakref.ref[Any] | None


_CAPTURED: deque[_Captured] = deque(maxlen=MOST_GRAPHS)


def report(compiled: Any = None) -> Report:
    """The report about a function or module returned by ``torch.compile``; without an argument, about all
    graphs of this process. Raises TypeError for other objects.
    """
    if compiled is None:
        return Report(tuple(each.report for each in _CAPTURED))
    own, names = backend_of(compiled), graph_names(compiled)
    return Report(
        tuple(
            each.report
            for each in _CAPTURED
            if each.name in names or (each.backend is not None and each.backend() is own)
        )
    )


def record(graph: GraphReport, name: str, captured_for: Any, strict: bool) -> None:
    """Stores the report of a graph that was captured for a backend. Warns once for each missing operator, or
    raises a ModelError with all of them if ``strict``.
    """
    known = None if captured_for is None else weakref.ref(captured_for)
    _CAPTURED.append(_Captured(graph, name, known))
    if graph.missing and strict:
        hint = "without strict=True, PyTorch runs them"
        raise ModelError(*(Diagnostic("unsupported-op", str(each), hint=hint) for each in graph.missing))
    for each in graph.missing:
        warn_once(f"PyTorch runs {each.operator}", "PyTorch runs %s", each)


def _operator(node: fx.Node) -> str:
    """The name of the operator that ``node`` calls. PyTorch wraps operators that change their arguments; then
    it is the name of the inner operator.
    """
    wrapped = isinstance(node.target, HigherOrderOperator)
    inner = (each for each in node.args if isinstance(each, OpOverload)) if wrapped else ()
    return str(next(iter(inner), node.target))

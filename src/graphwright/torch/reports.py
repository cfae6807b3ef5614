"""What became of the graphs that PyTorch captured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Self

from torch import fx

from graphwright.errors import Diagnostic, ModelError
from graphwright.log import warn
from graphwright.records import dataclass


@dataclass(frozen=True)
class Missing:
    """Calls of one operator that PyTorch runs: ``lines`` of the user's source, as far as they are known."""

    operator: str
    reason: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        places = f" ({', '.join(self.lines)})" if self.lines else ""
        return f"{self.operator}: {self.reason}{places}"


@dataclass(frozen=True)
class GraphReport:
    """One graph: how many calls it has, and which of them PyTorch runs."""

    calls: int
    missing: tuple[Missing, ...]

    @classmethod
    def of(cls, graph: fx.Graph, missing: Mapping[fx.Node, str]) -> Self:
        """The report of ``graph``, of whose nodes PyTorch runs ``missing`` for these reasons."""
        lines: dict[tuple[str, str], list[str]] = {}
        for node, reason in missing.items():
            lines.setdefault((str(node.target), reason), []).extend(_line(node))
        found = tuple(Missing(*key, tuple(dict.fromkeys(where))) for key, where in lines.items())
        return cls(sum(node.op == "call_function" for node in graph.nodes), found)


_REPORTS: list[GraphReport] = []


def report() -> list[GraphReport]:
    """All graphs that were captured in this process, in their order."""
    return list(_REPORTS)


def record(graph: GraphReport, strict: bool) -> None:
    """Keep the report of a graph. Missing operators are a warning, or a ModelError if ``strict``."""
    _REPORTS.append(graph)
    if not graph.missing:
        return
    if strict:
        hint = "leave out strict=True, and they run in PyTorch"
        raise ModelError(*(Diagnostic("unsupported-op", str(each), hint=hint) for each in graph.missing))
    warn("PyTorch runs %s", "; ".join(map(str, graph.missing)))


def _line(node: fx.Node) -> list[str]:
    """The innermost line of the user's source that made ``node``."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return [f"{file}:{line}" for file, line in frames[-1:]]

"""The self-contained page of ``explain --html``; all texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from graphwright.fusion.decisions import Decision
from graphwright.fusion.traffic import NodeTraffic
from graphwright.ir.refusal import Code
from graphwright.support.escaping import html_text
from graphwright.support.offline_page import offline_page
from graphwright.support.units import bytes_text
from graphwright.tools.reports.explanation import Explanation

_STYLE: Final = """
tr.taken { background: rgb(64 192 87 / 0.12) }
tr.refused { background: rgb(253 126 20 / 0.12) }
"""


def page(title: str, explained: Explanation) -> str:
    """The page: totals, what each kernel reads and writes, and every decision."""
    fused, unfused = explained.total
    totals = [
        ["fused", str(len(explained.nodes)), bytes_text(fused.read), bytes_text(fused.written)],
        ["op by op", str(explained.ops), bytes_text(unfused.read), bytes_text(unfused.written)],
    ]
    parts = [
        f"<h1>{html_text(title)}: fusion</h1>",
        _table(("", "kernels", "read", "written"), [("", row) for row in totals]),
        "<h2>Kernels</h2>",
        _table(
            ("node", "ops", "read", "written", "op by op", "weights"),
            [("", _kernel(node)) for node in explained.nodes],
        ),
        "<h2>Decisions</h2>",
        _table(
            ("edit", "nodes", "bytes", "verdict", "code", "why"),
            [(each.verdict.value, _decision(each, explained)) for each in explained.decisions],
        ),
        "<h2>Codes</h2>",
        _table(
            ("code", "means", "what to do"), [("", [c.value, c.means, c.remedy]) for c in _codes(explained)]
        ),
    ]
    return offline_page(f"{html_text(title)}: fusion", parts, _STYLE)


def _codes(explained: Explanation) -> list[Code]:
    used = {each.code for each in explained.decisions}
    return [code for code in Code if code in used]


def _kernel(node: NodeTraffic) -> list[str]:
    sizes = (node.fused.read, node.fused.written, node.unfused.total, node.weights)
    return [node.name, ", ".join(node.ops), *map(bytes_text, sizes)]


def _decision(each: Decision, explained: Explanation) -> list[str]:
    saved = "" if each.bytes_saved is None else bytes_text(explained.bytes_of(each))
    edit = each.edit
    return [edit.kind.value, " → ".join(edit.nodes), saved, each.verdict.value, each.code.value, each.why]


def _table(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    cells = "".join(f"<th>{html_text(cell)}</th>" for cell in head)
    lines = [f"<table><tr>{cells}</tr>"]
    for kind, row in rows:
        inner = "".join(f"<td>{html_text(cell)}</td>" for cell in row)
        lines.append(f'<tr class="{kind}">{inner}</tr>' if kind else f"<tr>{inner}</tr>")
    return "\n".join([*lines, "</table>"])

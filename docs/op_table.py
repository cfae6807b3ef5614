"""Writes the table of the ops of :class:`graphwright.GraphBuilder` into its page. A test checks that it is
up to date.

``python -m docs.op_table`` writes the table between the marks in ``docs/builder.md``.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from graphwright.builder.calls import op_classes, operands_of, signature
from graphwright.ir.op import Op
from graphwright.ir.op.plugin_ops import is_plugin_op

PAGE = Path(__file__).parent / "builder.md"
BEGIN, END = "<!-- ops: written by python -m docs.op_table -->", "<!-- end of ops -->"


def table() -> str:
    """A row for each op: its name, operands and attributes."""
    rows = [
        f"| `{name}` | {_operands(cls)} | {_attributes(cls)} |"
        for name, cls in op_classes().items()
        if not is_plugin_op(cls)
    ]
    return "\n".join(["| op | operands | attributes |", "| --- | --- | --- |", *rows])


def filled(page: str) -> str:
    """``page`` with the table between the marks."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{table()}\n\n{END}", page, flags=re.DOTALL)


def _operands(cls: type[Op]) -> str:
    shown = []
    for number, each in enumerate(operands_of(cls)):
        is_open = each.kind is inspect.Parameter.VAR_POSITIONAL
        optional = (number in cls.optional_inputs or each.default is None) and not is_open
        shown.append(f"{each.name}..." if is_open else f"[{each.name}]" if optional else each.name)
    return ", ".join(shown)


def _attributes(cls: type[Op]) -> str:
    found = [p for p in signature(cls).parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={_shown(p.default)}" for p in found)


def _shown(value: object) -> str:
    return f"`{value!r}`".replace("|", "\\|")


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()

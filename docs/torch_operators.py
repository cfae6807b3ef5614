"""Writes the table of PyTorch's operators, and what they become, into its page. A test checks that it is up
to date.

``python -m docs.torch_operators`` writes the table between the marks in ``docs/pytorch_operators.md``. What
follows it is measured: ``python -m benchmarks.torch_compile.suite ops --samples 3 --write``.
"""

from __future__ import annotations

import re
from pathlib import Path

from graphwright import ops
from graphwright.frontends.torch.compositions import COMPOSITIONS
from graphwright.ir.op import registered_ops
from graphwright.ir.op.plugin_ops import is_plugin_op

PAGE = Path(__file__).parent / "pytorch_operators.md"
BEGIN, END = "<!-- operators: written by python -m docs.torch_operators -->", "<!-- end of operators -->"


def table() -> str:
    """A row for each operator: its overloads, and the op that it becomes."""
    made: dict[str, dict[str, list[str]]] = {}
    for name, op in _becomes():
        operator, _, overload = name.partition(".")
        made.setdefault(operator, {}).setdefault(op, []).append(overload or "default")
    rows = [
        f"| `{operator}` | {', '.join(f'`{each}`' for each in overloads)} | {op} |"
        for operator, by_op in sorted(made.items(), key=lambda item: item[0].strip("_"))
        for op, overloads in by_op.items()
    ]
    return "\n".join(["| operator | overloads | becomes |", "| --- | --- | --- |", *rows])


def _becomes() -> list[tuple[str, str]]:
    """The operators with the op that each becomes. The names of operators outside of ATen begin with
    ``prims.``.
    """
    ops.load()
    found = [
        (_flat(name), f"`{cls.name}`")
        for cls in registered_ops().values()
        if not is_plugin_op(cls)
        for name in cls.aten
    ]
    known = {name for name, _ in found}
    composed = [str(operator).removeprefix("aten.").removesuffix(".default") for operator in COMPOSITIONS]
    return [*found, *((name, "a composition") for name in composed if name not in known)]


def _flat(name: str) -> str:
    """``prims.convert_element_type`` and ``higher_order.cond`` have no overload."""
    return name.replace("prims.", "prims::").replace("higher_order.", "higher_order::")


def filled(page: str) -> str:
    """``page`` with the table between the marks."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{table()}\n\n{END}", page, flags=re.DOTALL)


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()

"""The tables of docs/fusion.md: codes of decisions, and built-in rules. A test checks that they are current.

``python -m docs.fusion_tables`` writes them.
"""

from __future__ import annotations

import re
from pathlib import Path

from graphwright.fusion.rules import BUILT_IN
from graphwright.ir.refusal import Code

PAGE = Path(__file__).with_name("fusion.md")
BLOCK = re.compile(r"<!-- table (\w+) -->\n.*?<!-- end -->\n", re.DOTALL)


def codes() -> str:
    """Every code, what it means, and what to do."""
    rows = [f"| `{code.value}` | {code.means} | {code.remedy} |" for code in Code]
    return "\n".join(["| code | means | what to do |", "| --- | --- | --- |", *rows]) + "\n"


def rules() -> str:
    """Every built-in rule, in the order in which they are tried."""
    rows = [f"| `{rule.name}` | {rule.edit} | {rule.level} | {rule.does} |" for rule in BUILT_IN]
    return "\n".join(["| rule | edit | level | |", "| --- | --- | --- | --- |", *rows]) + "\n"


TABLES = {"codes": codes, "rules": rules}


def filled(page: str) -> str:
    """``page`` with its tables."""
    return BLOCK.sub(lambda m: f"<!-- table {m[1]} -->\n{TABLES[m[1]]()}<!-- end -->\n", page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))

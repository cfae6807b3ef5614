"""The page on fusion has the tables of codes and rules, and its file of switches is one."""

from __future__ import annotations

import re
from pathlib import Path

from docs.fusion_tables import PAGE, filled
from graphwright.option_files.rule_lists import read_rules


def test_the_tables_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    assert filled(text) == text, "python -m docs.fusion_tables writes them"


def test_the_example_of_a_file_of_rules_is_read(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "rules.toml").write_text(found[1])
    assert read_rules(str(tmp_path / "rules.toml")) == "all,-epilogue"

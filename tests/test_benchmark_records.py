"""The files that benchmarks write: what they say about the measurement, and their figures."""

from __future__ import annotations

import json
import platform
from pathlib import Path

from benchmarks.records import write_record, write_rows


def test_a_record_has_the_machine_the_versions_the_day_and_the_figures(tmp_path: Path) -> None:
    file = tmp_path / "new" / "record.json"
    write_record(file, ["numpy", "not-installed"], {"threads": 2})
    record = json.loads(file.read_text())
    assert list(record) == ["machine", "versions", "day", "threads"]
    assert record["versions"].keys() == {"python", "numpy"} and record["threads"] == 2
    assert record["versions"]["python"] == platform.python_version()
    assert [path.name for path in file.parent.iterdir()] == ["record.json"]


def test_each_row_is_a_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    write_rows(file, [], [{"model": "a"}, {"model": "b"}])
    assert file.read_text().splitlines()[1:] == ['{"model": "a"},', '{"model": "b"}', "]}"]
    assert json.loads(file.read_text())["rows"] == [{"model": "a"}, {"model": "b"}]
    write_rows(file, [], [], "edits")
    assert json.loads(file.read_text())["edits"] == []

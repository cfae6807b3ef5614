"""Tuning records: a written record can be read; other files are rejected or ignored."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphwright
from graphwright import log
from graphwright.config import Options
from graphwright.errors import OptionError
from graphwright.option_files.rate_files import cpu_model
from graphwright.option_files.tuning_records import (
    MOST_WORKLOADS,
    NO_RECORD,
    Measured,
    Record,
    Times,
    Workloads,
    parsed,
    read_tuning,
)
from graphwright.tuning import store

HALF = Measured("direct", {"winograd 2x2": Times(0.5, 0.4, 0.6), "winograd 4x4": None}, "winograd 2x2")


def digest(number: int) -> str:
    return f"{number:032x}"


def entry(**changes: object) -> str:
    plain = {"base": "a", "taken": "b", "times": {"b": [0.9, 0.8, 0.95]}, **changes}
    held = {"format": 1, "cpu": "c", "graphwright": "1", "workloads": {digest(1): plain}}
    return json.dumps(held)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Options]:
    """The options of a user without a record; each test logs warnings anew."""
    monkeypatch.setattr(log, "_WARNED", set())
    yield Options(cache_dir=tmp_path / "cache")


alternatives = st.sampled_from(("direct", "two kernels", "1 to 3 in bands of 8", "\u03b1"))
steps = st.integers(1, 200)
measured_times = st.tuples(steps, steps, steps).map(
    lambda t: Times((t[0] + t[1]) / 64, t[0] / 64, (t[0] + t[1] + t[2]) / 64)
)


@st.composite
def measured(draw: st.DrawFn) -> Measured:
    base = draw(alternatives)
    times = draw(st.dictionaries(alternatives, st.none() | measured_times, max_size=3))
    return Measured(base, times, draw(st.sampled_from([base, *times])))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.integers(0, 9).map(digest), measured(), max_size=4))
def test_a_record_that_is_written_is_read(workloads: Workloads) -> None:
    record = Record("cpu", "1.0", workloads)
    assert parsed(record.text()) == record
    assert read_tuning(record.text()) == record.text()


def test_a_record_keeps_what_was_measured_last() -> None:
    workloads = {digest(k): HALF for k in range(MOST_WORKLOADS + 5)}
    kept = parsed(Record("c", "1", workloads).text()).workloads
    assert list(kept) == [digest(k) for k in range(5, MOST_WORKLOADS + 5)]


@pytest.mark.parametrize(
    "text",
    (
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"format": 2}',
        '{"format": 1, "cpu": "c", "graphwright": "1"}',
        entry(taken="c"),
        entry(base=""),
        entry(base=3),
        entry(base="a\x1b[31m"),
        entry(times=None),
        entry(times={"b": [0.9, 0.95, 0.8]}),
        entry(times={"b": [0.9, 0.8]}),
        entry(times={"b": [0.9, 0.0, 1.0]}),
        entry(times={"b": ["0.9", 0.8, 1.0]}),
        entry().replace(digest(1), "../name"),
        entry().replace("0.95", "NaN"),
        entry().replace("0.95", "Infinity"),
        entry().replace("0.95", "1" + "0" * 400),
    ),
)
def test_invalid_records_are_rejected(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed(text)
    file = tmp_path / "record.json"
    file.write_text(text)
    with pytest.raises(OptionError, match="tuning"):
        Options(tuning=str(file))


def test_a_file_that_is_not_there_or_too_large_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="must be auto, none, or a file"):
        Options(tuning=str(tmp_path / "none.json"))
    (tmp_path / "large.json").write_bytes(b" " * ((8 << 20) + 1))
    with pytest.raises(OptionError, match="8 MiB"):
        Options(tuning=str(tmp_path / "large.json"))


def test_the_record_is_private_and_new_measurements_are_added(options: Options) -> None:
    assert store.with_record(options).tuning == NO_RECORD
    store.keep({digest(1): HALF, digest(2): HALF}, options)
    store.keep({digest(3): HALF, digest(1): HALF}, options)
    record = store.users_record(options)
    assert record is not None
    assert list(record.workloads) == [digest(2), digest(3), digest(1)]
    assert store.with_record(options).tuning == record.text()
    file = options.tuning_folder / store.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(options.tuning_folder.stat().st_mode) == 0o700
    assert os.listdir(options.tuning_folder) == [store.FILE]


@pytest.mark.parametrize(
    ("content", "why"),
    (
        (b"{", "not JSON"),
        (b"\xff", "decode"),
        (Record("another CPU", graphwright.__version__, {digest(1): HALF}).text().encode(), "another CPU"),
        (Record(cpu_model(), "0.0.0", {digest(1): HALF}).text().encode(), "graphwright 0.0.0"),
    ),
)
def test_damaged_and_foreign_records_are_ignored_with_one_warning(
    content: bytes, why: str, options: Options, caplog: pytest.LogCaptureFixture
) -> None:
    store.keep({digest(2): HALF}, options)
    (options.tuning_folder / store.FILE).write_bytes(content)
    for _ in range(2):
        assert store.with_record(options).tuning == NO_RECORD
    assert len(caplog.records) == 1 and why in caplog.text
    store.keep({digest(3): HALF}, options)
    record = store.users_record(options)
    assert record is not None and list(record.workloads) == [digest(3)]


def test_a_record_that_others_can_write_is_not_read(
    options: Options, caplog: pytest.LogCaptureFixture
) -> None:
    store.keep({digest(2): HALF}, options)
    (options.tuning_folder / store.FILE).chmod(0o666)
    assert store.users_record(options) is None
    (options.tuning_folder / store.FILE).chmod(0o600)
    options.tuning_folder.chmod(0o777)
    assert store.users_record(options) is None
    assert "is not used" in caplog.text


def test_a_folder_that_cannot_be_made_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log, "_WARNED", set())
    (tmp_path / "file").write_text("")
    store.keep({digest(1): HALF}, Options(cache_dir=tmp_path / "file"))
    assert len(caplog.records) == 1


@pytest.mark.parametrize("sizes", ("N", "N=", "=3", "N=-1", "N=1,,", "N=1;M=2", "N=9999999999"))
def test_invalid_tune_sizes_are_rejected(sizes: str) -> None:
    with pytest.raises(OptionError, match="must be sizes"):
        Options(tune_sizes=sizes)


def test_tune_sizes_are_parsed() -> None:
    assert Options(tune_sizes="N=1, H=640").sizes_to_tune == {"N": 1, "H": 640}

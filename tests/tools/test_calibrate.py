"""``graphwright calibrate``: the file that it writes, what compilation makes of it, and wrong files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import graphwright as gw
from graphwright import log
from graphwright.config import Options
from graphwright.cost.calibration import machine_of, rates_of, with_rates
from graphwright.cost.machine import MACHINES
from graphwright.cost.predict import Work, predict
from graphwright.errors import OptionError
from graphwright.option_files.rate_files import MOST, RATES, cpu_model, parsed, rates_text, resolved
from graphwright.runtime.devices.this_cpu import usable_isas
from graphwright.targets.cpu.isa import ISAS
from tests.tools.support import graphwright

SLOW = {name: max(1, rate // 2) for name, rate in rates_of(MACHINES["v3"]).items()}
HALF = rates_text(cpu_model(), {isa: SLOW for isa in ("v3", "v4")})


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of the user's rates; each test logs warnings anew."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(log, "_WARNED", set())
    path = Options().calibration_file
    path.parent.mkdir(parents=True)
    yield path


def gate(calibration: str = "auto") -> gw.Model:
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, (64, 64))
    b.output("y", b.mul(x, b.sigmoid(x)))
    return b.compile(options=gw.CompileOptions(calibration=calibration))


def test_the_file_that_is_written_is_read(file: Path) -> None:
    done = graphwright("calibrate")
    assert done.exit_code == 0, done.output
    cpu, rates = parsed(file.read_text())
    assert cpu == cpu_model()
    assert tuple(rates) == usable_isas()
    for each in rates.values():
        assert all(1 <= each[name] <= MOST for name in RATES)
        assert each["l1_load"] >= each["memory_load"]
    shown = graphwright("calibrate", "--show").stdout
    assert str(rates["v3"]["f32_gflops"]) in shown and "f32_gflops" in shown
    assert graphwright("calibrate", "--reset").exit_code == 0
    assert not file.exists()
    for flag in ("--reset", "--show"):
        done = graphwright("calibrate", flag)
        assert done.exit_code == 0 and "no measured rates" in done.stdout
    assert graphwright("calibrate", "--reset", "--show").exit_code == 2


def test_compilation_reads_it_and_the_package_names_its_digest(file: Path, tmp_path: Path) -> None:
    plain = gate()
    assert plain.package.options["calibration"] == "none"
    file.write_text(HALF)
    measured = gate()
    digest = measured.package.options["calibration"]
    assert len(digest) == 32 and int(digest, 16) >= 0
    assert gate(calibration="none").package.options == plain.package.options
    for name in ("first.om", "second.om"):
        gate().save(tmp_path / name)
    assert (tmp_path / "first.om").read_bytes() == (tmp_path / "second.om").read_bytes()
    explicit = tmp_path / "rates.json"
    explicit.write_text(f"{json.dumps(json.loads(HALF), indent=2)}\n")
    file.unlink()
    assert gate(calibration=str(explicit)).package.options["calibration"] == digest


def test_predictions_follow_the_rates(file: Path) -> None:
    """Half of the rates predict twice the time, for FMAs, cycles and bytes."""
    work = [Work(fmas=10**9), Work(cycles=10**9), Work(moved=10**6), Work(moved=10**9), Work(weights=10**9)]
    for isa in ("v3", "v4"):
        for each in work:
            fast, slow = (
                predict(each, with_rates(MACHINES[isa], rates))
                for rates in ({n: 2 * r for n, r in SLOW.items()}, SLOW)
            )
            assert isinstance(fast, int) and isinstance(slow, int)
            assert slow == pytest.approx(2 * fast, rel=0.02)
        halved = machine_of(isa, HALF)
        assert (halved.l2.bytes, halved.lanes) == (MACHINES[isa].l2.bytes, MACHINES[isa].lanes)
        assert ISAS[isa].on(halved).machine is halved
        assert ISAS[isa].on(MACHINES[isa]) is ISAS[isa]


def test_rates_of_the_table_are_the_table() -> None:
    for machine in MACHINES.values():
        assert with_rates(machine, rates_of(machine)) == machine
    assert machine_of("v4", rates_text("x", {"v3": SLOW})) is MACHINES["v4"]


DAMAGED = {
    "": "is not JSON",
    "[]": "has no rates of format 1",
    '{"format": 2}': "has no rates of format 1",
    '{"format": 1, "cpu": 3}': "names no CPU",
    '{"format": 1, "cpu": "x", "rates": {"v9": {}}}': "names no CPU, or has no rates of v3 or v4",
    '{"format": 1, "cpu": "x", "rates": {"v3": {}}}': "rates of v3 are not clock_mhz",
    HALF.replace("58", "0"): "is not an integer from 1 to",
    HALF.replace("58", "true"): "is not an integer from 1 to",
    HALF.replace("58", "1e300"): "is not an integer from 1 to",
    "[" * 100_000: "is not JSON",
}


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_is_one_warning(file: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(text)
    model = gate()
    assert model.package.options["calibration"] == "none"
    (record,) = [r for r in caplog.records if "machine.json" in r.getMessage()]
    assert DAMAGED[text] in record.getMessage() and "graphwright calibrate" in record.getMessage()
    gate()
    assert len([r for r in caplog.records if "machine.json" in r.getMessage()]) == 1
    shown = graphwright("calibrate", "--show")
    assert shown.exit_code == 2 and "measure again" in shown.stderr
    with pytest.raises(OptionError, match="calibration"):
        Options(calibration=str(file))


def test_a_file_of_another_cpu_is_not_used(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(rates_text("Another", {"v3": SLOW}))
    assert resolved("auto", file) == "none"
    (record,) = caplog.records
    assert "measured on Another" in record.getMessage()
    assert "they are not used" in graphwright("calibrate", "--show").stdout
    assert Options(calibration=str(file)).calibration.startswith("{"), "asked for, it is"


def test_a_file_that_cannot_be_read_or_written(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.mkdir()
    assert resolved("auto", file) == "none"
    assert "Is a directory" in caplog.records[0].getMessage()
    done = graphwright("calibrate")
    assert done.exit_code == 1 and len(done.stderr.strip().splitlines()) <= 2
    assert os.listdir(file.parent) == ["machine.json"]
    with pytest.raises(OptionError, match="No such file"):
        Options(calibration="/no/such/file")
    with pytest.raises(OptionError, match="has more than 1 MiB"):
        Options(calibration="/dev/zero")

"""Predicted times follow from the rates of a made-up machine; sizes may be known at run time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright.cost.machine import MACHINES, Level, Machine
from graphwright.cost.predict import Work, overlapped, predict, stream_ns
from graphwright.ir.symbols import evaluate, symbol
from graphwright.targets.cpu.isa import ISAS

ROUND = Machine(
    vector_bytes=32,
    clock_mhz=2000,
    f32_gflops=100,
    i8_gops=200,
    bf16_gflops=200,
    l1=Level(1000, 100, 100),
    l2=Level(10_000, 50, 50),
    l3=Level(100_000, 20, 20),
    memory=Level(1 << 62, 10, 10),
)


def test_multiply_adds_count_twice_and_reach_a_share_of_the_peak() -> None:
    assert predict(Work(fmas=5000), ROUND) == 100
    assert predict(Work(fmas=5000, efficiency=50), ROUND) == 200
    assert predict(Work(byte_fmas=5000), ROUND) == 50


def test_cycles_take_the_time_of_the_clock() -> None:
    assert predict(Work(cycles=2000), ROUND) == 1000
    assert predict(Work(cycles=1), ROUND) == 1


@pytest.mark.parametrize(
    ("moved", "expected"), [(0, 0), (10_000, 200), (30_000, 200 + 1000), (200_000, 200 + 4500 + 10_000)]
)
def test_bytes_come_from_the_caches_that_hold_them(moved: int, expected: int) -> None:
    assert stream_ns(moved, ROUND) == expected


def test_weights_are_read_at_the_bandwidth_of_memory() -> None:
    assert predict(Work(weights=500), ROUND) == 50


def test_arithmetic_and_streams_overlap() -> None:
    assert overlapped(100, 50) == overlapped(50, 100) == 110
    assert predict(Work(fmas=5000, moved=2500), ROUND) == 110


sizes = st.sampled_from([0, 1, 7, 16, 97, 1000, 12_289, 1 << 20])


@given(n=sizes, m=sizes)
def test_sizes_that_are_known_at_run_time_give_the_same(n: int, m: int) -> None:
    def work(n: object, m: object) -> Work:
        return Work(fmas=n * m, efficiency=90, cycles=n + 3 * m, moved=4 * n * m, weights=m)  # type: ignore[operator]

    made = predict(work(symbol("n"), symbol("m")), ROUND)
    assert evaluate(made, {"n": n, "m": m}) == predict(work(n, m), ROUND)


def test_predicted_time_grows_with_work() -> None:
    for machine in MACHINES.values():
        times = [predict(Work(fmas=n, cycles=n, moved=4 * n), machine) for n in range(0, 1 << 24, 99_991)]
        assert times == sorted(times)


def test_each_instruction_set_has_a_table() -> None:
    assert MACHINES.keys() == ISAS.keys()
    for name, isa in ISAS.items():
        assert isa.machine is MACHINES[name]
        assert isa.machine.vector_bytes == isa.vector_bytes
        levels = (isa.machine.l1, isa.machine.l2, isa.machine.l3, isa.machine.memory)
        assert [level.bytes for level in levels] == sorted(level.bytes for level in levels)
        assert [level.load for level in levels] == sorted((level.load for level in levels), reverse=True)

"""Every sample of every op, compiled and run on the CPU: its results, and whether it is native."""

from __future__ import annotations

import pytest

import graphwright.ops
from graphwright.ir.op import Sample, registered_ops
from graphwright.ir.op.region_op import RegionOp
from tests.ops.support import assert_close

from .exceptions import HOST_CALLS, STAGED
from .support import run_samples

graphwright.ops.load()
OPS = {
    name: cls
    for name, cls in registered_ops().items()
    if cls.__module__.startswith("graphwright.ops.") and not issubclass(cls, RegionOp)
}


def good(name: str) -> list[tuple[int, Sample]]:
    """Numbers and samples that a device must run."""
    return [(k, s) for k, s in enumerate(OPS[name].samples) if not s.error]


@pytest.mark.parametrize("name", [name for name in OPS if good(name)])
def test_samples_run_natively(name: str) -> None:
    outcomes = run_samples(good(name))
    for k, outcome in outcomes.items():
        for actual, expected in zip(outcome.actual, outcome.expected, strict=True):
            assert_close(actual, expected, f"{name} sample {k}")
    hosted = {k: outcome.host for k, outcome in outcomes.items() if outcome.host}
    assert hosted.keys() == {**HOST_CALLS.get(name, {}), **STAGED.get(name, {})}.keys(), hosted

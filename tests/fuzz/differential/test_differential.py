"""A fixed part of the fuzzing campaign; faults that it found earlier are tested with their ops."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from graphwright.config import Options

from .attempt import attempt
from .campaign import run
from .draft import Impossible
from .generate import generate
from .makers import MAKERS
from .minimize import minimized, script
from .peers import Unsupported, session

CASES = 60


def test_cases_are_functions_of_their_seeds() -> None:
    one, other = generate(7), generate(7)
    assert one.model.SerializeToString() == other.model.SerializeToString()
    for a, b in zip(one.feeds, other.feeds, strict=True):
        assert a.keys() == b.keys() and all(
            np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f") for k in a
        )


def test_cases_reach_most_ops() -> None:
    drawn = set()
    for seed in range(700):
        drawn.update(generate(seed).ops)
    assert len(drawn) > 0.85 * len(MAKERS)


def test_both_engines_agree(capfd: pytest.CaptureFixture[str]) -> None:
    """Graphwright runs NumPy references here, and kernels in fewer cases."""
    assert run(range(500_000, 500_000 + CASES), (), "reference", 1) == 0, capfd.readouterr().out
    assert run(range(600_000, 600_000 + CASES // 4), (), "cpu", 1) == 0, capfd.readouterr().out


def test_a_mismatch_becomes_a_script() -> None:
    """ONNX Runtime gives NonZero of a scalar another shape; reduction removes all other nodes."""
    for seed in range(5000):
        try:
            case = generate(seed, ("NonZero", "Relu"))
            session(case.model)
        except (Impossible, Unsupported):
            continue
        found = attempt(case, Options(device="reference"))
        if len(case.ops) > 1 and found:
            break
    smaller, mismatch = minimized(case, found[0], Options(device="reference"))
    assert smaller.ops == ("NonZero",) and len(smaller.feeds) == 1
    text = script(smaller, mismatch)
    printed: list[tuple[object, ...]] = []
    names: dict[str, object] = {"print": lambda *values: printed.append(values)}
    exec(text, names)
    assert isinstance(names["model"], onnx.ModelProto)
    assert [values[0] for values in printed] == ["onnxruntime", "graphwright"]

"""Calls of a function: inlined, equal kernels made once, and right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

import graphwright as gw
from benchmarks.functions import ROWS, chain, operands
from graphwright.config import Options
from tests.executables import targets


def test_further_calls_make_no_further_kernels(tmp_path: Path) -> None:
    options = Options(cache_dir=tmp_path / "cache", key_dir=tmp_path / "keys", threads=1)
    x = np.random.default_rng(0).standard_normal((ROWS, 32)).astype(np.float32)
    kernels = set()
    for calls in (1, 3, 6):
        source = chain(calls, 32)
        model = gw.compile(source, options=options)
        (want,) = onnxruntime.InferenceSession(source.SerializeToString()).run(None, {"x": x})
        np.testing.assert_allclose(model(x)[0], want, rtol=1e-4, atol=1e-5)
        (target,) = targets(model.package).values()
        kernels.add(frozenset((kernel.symbol, kernel.module) for kernel in target.task_graph.kernels))
    assert len(kernels) == 1


def test_weights_as_operands_mean_the_same(tmp_path: Path) -> None:
    options = Options(cache_dir=tmp_path / "cache", key_dir=tmp_path / "keys", threads=1)
    source = chain(1, 32)
    shared, weights = operands(source)
    x = np.random.default_rng(0).standard_normal((ROWS, 32)).astype(np.float32)
    inlined = gw.compile(source, options=options)(x)[0]
    np.testing.assert_allclose(
        gw.compile(shared, options=options)(x, *weights)[0], inlined, rtol=1e-4, atol=1e-5
    )

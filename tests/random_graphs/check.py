"""A compiled module against the NumPy references of the module as it was before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.op import Array
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.model import Model

from .generate import Case


def check(case: Case, options: Options) -> None:
    """Close to the references; the same bits at one and two threads, and with freed memory poisoned."""
    reference = clone_module(case.module)
    model = gw.compile(clone_module(case.module), options=options)
    for seed, sizes in enumerate(case.sizes):
        feeds = case.feeds(sizes, seed)
        kept = [f.copy() for f in feeds]
        want = evaluate_module(reference, feeds)
        got = native(model, feeds, 1)
        for k, (w, g, error) in enumerate(zip(want, got, case.errors, strict=True)):
            assert_close(w, g, error, f"output {k} at {sizes}")
        for again in (native(model, feeds, 2), native(model, feeds, 2, poison=True), native(model, feeds, 1)):
            for k, (a, b) in enumerate(zip(got, again, strict=True)):
                assert a.tobytes() == b.tobytes(), f"output {k} at {sizes} is not the same again"
        for a, b in zip(kept, feeds, strict=True):
            assert a.tobytes() == b.tobytes(), "an input was written"


def native(model: Model, feeds: Sequence[Array], threads: int, poison: bool = False) -> Sequence[Array]:
    """The outputs of one run; the fast path poisons nothing."""
    assert isinstance(model.executor, Cpu)
    if poison:
        return model.executor.run([np.asarray(feed, order="C") for feed in feeds], None, threads, poison=True)
    model.threads = threads
    return model(*feeds)


def assert_close(want: Array, got: Array, error: float, where: str) -> None:
    assert want.shape == got.shape and want.dtype == got.dtype, (
        f"{where}: {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    )
    if error == 0:
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64), where)
        return
    a, b = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b), where)
    worst = np.max(np.abs(np.nan_to_num(a) - np.nan_to_num(b)), initial=0.0)
    assert worst <= 4 * error + 1e-12, f"{where}: off by {worst}, allowed {4 * error}"

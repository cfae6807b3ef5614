"""The fast path of runs: arguments that it handles, arguments that it leaves to the slow path, and its
overhead.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import graphwright as gw
from graphwright.ops.core.binary import Add
from graphwright.ops.core.unary import Relu
from graphwright.runtime.model import Model
from graphwright.targets.cpu.toolchain import find_toolchain

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def model() -> Model:
    """Inputs x and y; outputs their sum, and its positive part."""
    b = gw.GraphBuilder()
    x, y = b.input("x", "f32", ("N", 4)), b.input("y", "f32", ("N", 4))
    total = b(Add(), x, y)
    b.output("total", total)
    b.output("positive", b(Relu(), total))
    return b.compile()


def test_plain_arrays_take_the_fast_path(model: Model) -> None:
    entry = model.executor.fast_path(0)
    total, positive = entry(X, X)
    np.testing.assert_array_equal(total, 2 * X)
    np.testing.assert_array_equal(positive, np.maximum(2 * X, 0))
    named = entry.named({"y": X, "x": X}, None)
    assert list(named) == ["total", "positive"]
    np.testing.assert_array_equal(named["total"], 2 * X)
    (again,) = entry.listed({"x": X, "y": X}, ["".join(("posi", "tive"))])
    np.testing.assert_array_equal(again, np.maximum(2 * X, 0))
    assert list(entry.named({"x": X, "y": X}, ("positive",))) == ["positive"]


@pytest.mark.parametrize(
    "array",
    [
        X.tolist(), X.astype(np.float64), X[:, ::-1], np.asfortranarray(X), X[0], X.astype(">f4"), None,
        X.astype(ml_dtypes.bfloat16), X.view(np.recarray), X[:2], np.float32(1), memoryview(X),
    ],
)  # fmt: skip
def test_unusual_feeds_take_the_general_path(model: Model, array: Any) -> None:
    entry = model.executor.fast_path(0)
    assert entry(array, X) is None
    assert entry.named({"x": array, "y": X}, None) is None
    assert entry.listed({"x": array, "y": X}, None) is None


@pytest.mark.parametrize(
    ("feeds", "names"),
    [
        ({"x": X}, None), ({"x": X, "z": X}, None), ({"x": X, "y": X, "z": X}, None), ([X, X], None),
        ({"x": X, "y": X}, ["absent"]), ({"x": X, "y": X}, "total"), ({"x": X, "y": X}, [3]),
        ({"x": X, "y": X}, [[]]), (None, None),
    ],
)  # fmt: skip
def test_unknown_names_take_the_general_path(model: Model, feeds: Any, names: Any) -> None:
    entry = model.executor.fast_path(0)
    assert entry.named(feeds, names) is None
    assert entry.listed(feeds, names) is None


def test_outputs_go_to_the_memory_of_the_caller(model: Model) -> None:
    entry = model.executor.fast_path(0)
    feeds = {"x": X, "y": X}
    total, positive = np.zeros_like(X), np.zeros_like(X)
    made = entry.named(feeds, None, {"positive": positive})
    assert made["positive"] is positive and made["total"] is not total
    np.testing.assert_array_equal(positive, np.maximum(2 * X, 0))
    np.testing.assert_array_equal(made["total"], 2 * X)
    made = entry.named(feeds, ["total"], {"positive": positive, "total": total})
    assert list(made) == ["total"] and made["total"] is total
    np.testing.assert_array_equal(total, 2 * X)


MEMORY = np.zeros((6, 4), np.float32)
READ_ONLY = np.zeros_like(X)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "out",
    [
        [("total", X)], {"total": None}, {"total": READ_ONLY}, {"total": np.zeros((3, 4))},
        {"total": np.zeros(12, "f")},
        {"total": np.zeros((4, 4), "f")}, {"total": np.zeros((3, 8), "f")[:, ::2]}, {"absent": X.copy()},
        {"total": X}, {"total": X.copy(), "absent": X.copy()}, {"total": X.astype(">f4")},
        {"total": MEMORY[:3], "positive": MEMORY[2:5]}, {"total": X.copy().view(np.recarray)},
    ],
)  # fmt: skip
def test_unfit_targets_are_left_to_the_long_way_and_not_written(model: Model, out: Any) -> None:
    entry = model.executor.fast_path(0)
    arrays = [X, MEMORY, READ_ONLY, *(a for a in dict(out).values() if a is not None)]
    before = [np.array(array) for array in arrays]
    assert entry.named({"x": X, "y": X + 1}, None, out) is None
    assert all(map(np.array_equal, arrays, before))


def test_wrong_counts_and_keywords_take_the_general_path(model: Model) -> None:
    entry = model.executor.fast_path(0)
    assert entry() is None
    assert entry(X) is None
    assert entry(X, X, X) is None
    assert entry(X, X, extra=1) is None  # type: ignore[call-arg]  # it takes none
    with pytest.raises(TypeError):
        entry.named({})  # type: ignore[call-arg]  # no names of outputs


def test_threads_of_a_model_can_be_changed(model: Model) -> None:
    model.threads = 2
    assert model.threads == 2
    np.testing.assert_array_equal(model(X, X)[0], 2 * X)
    with pytest.raises(gw.OptionError, match="0 or more"):
        model.threads = -1
    model.threads = 10**8
    assert 2 < model.threads <= 1024
    model.threads = 0


def test_threads_are_kept_within_what_the_pool_can_have(model: Model) -> None:
    entry = model.executor.fast_path(10**6)
    assert 0 < entry.threads <= 1024
    np.testing.assert_array_equal(entry(X, X)[0], 2 * X)
    with pytest.raises(ValueError, match="negative"):
        model.executor.fast_path(-1)


def test_reference_counts_are_correct(model: Model) -> None:
    feeds, names = {"x": X, "y": X}, ["total"]
    entry = model.executor.fast_path(0)
    out = {"total": np.zeros_like(X)}
    overlapping = {"total": out["total"], "positive": out["total"]}
    counted = (X, feeds, names, names[0], entry, None, out, out["total"], overlapping)
    for act in (
        lambda: entry(X, X), lambda: entry.named(feeds, names), lambda: entry.listed(feeds, None),
        lambda: entry.named(feeds, None), lambda: entry(X), lambda: entry.named(feeds, ["absent"]),
        lambda: entry.named(feeds, None, out), lambda: entry.named(feeds, None, overlapping),
        lambda: entry.named(feeds, None, {"absent": X}),
    ):  # fmt: skip
        act()
        before = [sys.getrefcount(o) for o in counted]
        for _ in range(50):
            act()
        after = [sys.getrefcount(o) for o in counted]
        assert np.abs(np.subtract(after, before)).max() < 10
    gc.collect()


_COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
static long calls;
long allocations(void) { return calls; }
#define COUNTED(name, ...)                                           \
    static __typeof__(name) *next;                                   \
    if (!next)                                                       \
        next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);          \
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);                 \
    return next(__VA_ARGS__)
void *malloc(size_t n) { COUNTED(malloc, n); }
void *realloc(void *p, size_t n) { COUNTED(realloc, p, n); }
void *aligned_alloc(size_t a, size_t n) { COUNTED(aligned_alloc, a, n); }
extern void *__libc_calloc(size_t, size_t);
void *calloc(size_t n, size_t m) {
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    return __libc_calloc(n, m); /* dlsym itself calls calloc */
}
"""

_RUNS = """
import ctypes, sys
import numpy as np
import graphwright as gw

model = gw.load(sys.argv[1])
count = ctypes.CDLL(sys.argv[2]).allocations
count.restype = ctypes.c_long
feeds = {spec.name: np.ones((512, 4), np.float32) for spec in model.inputs}
arrays = tuple(feeds.values())

def made(act):
    for _ in range(20):
        act()
    before = count()
    for _ in range(100):
        act()
    return count() - before

outputs = made(lambda: [np.empty((512, 4), np.float32) for _ in model.outputs])
idle = made(lambda: None)
print(outputs - idle, made(lambda: model(*arrays)) - idle, made(lambda: model.run(feeds)) - idle)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts through LD_PRELOAD")
def test_a_run_allocates_its_outputs_alone(model: Model, tmp_path: Path) -> None:
    (tmp_path / "counter.c").write_text(_COUNTER)
    counter = tmp_path / "counter.so"
    command = [*find_toolchain().command, "-shared", "-fPIC", "-O1", "-o", str(counter)]
    subprocess.run([*command, str(tmp_path / "counter.c"), "-ldl"], check=True, capture_output=True)
    assert ctypes.CDLL(str(counter)).allocations() >= 0
    model.save(tmp_path / "model.om")
    settings = {"XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"]}  # where the key is that signed the package
    ended = subprocess.run(
        [sys.executable, "-c", _RUNS, str(tmp_path / "model.om"), str(counter)],
        env={**settings, "LD_PRELOAD": str(counter), "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    outputs, called, ran = map(int, ended.stdout.split())
    assert outputs >= 100
    assert called <= outputs
    assert ran <= outputs + 100  # the dict's own keys, now and then

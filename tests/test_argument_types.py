"""Arguments of the wrong type: each public function says which argument, and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright import _native
from graphwright.ops.core.binary import Add

X = np.ones((2, 3), np.float32)


def builder() -> gw.GraphBuilder:
    made = gw.GraphBuilder()
    x = made.input("x", "f32", ("N", 3))
    made.output("twice", made(Add(), x, x))
    return made


@pytest.fixture(scope="module")
def model() -> gw.Model:
    return builder().compile()


COUNTS: tuple[Any, ...] = (
    1.5,
    "2",
    -1,
    None,
    True,
    b"x",
    [1],
    {},
    2**70,
    np.float32(2),
    np.ones(2, np.int64),
)


@pytest.mark.parametrize("wrong", COUNTS, ids=repr)
def test_numbers_of_threads(wrong: Any, model: gw.Model) -> None:
    before = model.threads, _native.threads()
    with pytest.raises(gw.OptionError, match=r"^threads="):
        gw.set_threads(wrong)
    with pytest.raises(gw.OptionError, match=r"^threads="):
        model.threads = wrong
    with pytest.raises(gw.OptionError, match=r"^threads="):
        model.trace({"x": X}, wrong)
    with pytest.raises(gw.OptionError, match=r"^threads="):
        gw.CompileOptions(threads=wrong)
    if wrong is not None:
        with pytest.raises(gw.OptionError, match=r"^threads="):
            model.memory({"x": [2, 3]}, threads=wrong)
    assert (model.threads, _native.threads()) == before


def test_no_number_of_threads_is_one_per_core() -> None:
    initial = _native.threads()
    gw.set_threads(np.int64(3))  # type: ignore[arg-type]  # NumPy's integers are numbers too
    assert _native.threads() == 3
    gw.set_threads(0)
    assert _native.threads() == _native.cpu_count()
    gw.set_threads(initial)


CALLS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "gears": (lambda: gw.Gears(1.5), gw.OptionError, "shapes must be a dict by name of input, not 1.5"),
    "batches": (lambda: gw.Gears(batch=4), gw.OptionError, "batch must be a list of sizes, not 4"),
    "images": (lambda: gw.Gears(image="64x64"), gw.OptionError, "image must be a list of sizes, not '64x64'"),
    "an image": (
        lambda: builder().compile(gears=gw.Gears(image=[64, 32])),
        gw.OptionError,
        "64 is not a height and width",
    ),
    "a size": (lambda: gw.Dim(3), gw.FeedError, "3 is not a valid name of a size"),
    "options": (
        lambda: builder().compile(options={1: 2}),
        gw.OptionError,
        "there is no option 1",
    ),
    "a plugin": (lambda: gw.plugins.load(None), gw.PluginError, "path of a .py file or a name, not None"),
    "an output": (lambda: builder().output(["y"], None), gw.ModelError, "not text"),
    "an update": (lambda: builder().update([1], 2.0), gw.ModelError, "is not a state of this builder"),
    "kernels": (lambda: gw.emit_sources("m.om", "c"), gw.OptionError, "a compiled model, not str"),
    "events": (lambda: gw.profile(max_events="9"), ValueError, "max_events='9': must be a whole number"),
    "counters": (lambda: gw.profile(counters="cycles"), ValueError, "a list of names, not 'cycles'"),
    "a session": (lambda: gw.InferenceSession(1.5), gw.ModelError, "cannot be read from float"),
    "its options": (
        lambda: gw.InferenceSession(b"", {"threads": 1}),
        gw.OptionError,
        "must be a SessionOptions, not of type dict",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_wrong_types_are_rejected_by_name(name: str) -> None:
    call, error, text = CALLS[name]
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("keys", ["a.key", b"secret", 3, [3], [None]], ids=repr)
def test_keys_that_are_no_list_of_keys_are_rejected(keys: Any, model: gw.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "m.om")
    with pytest.raises(gw.OptionError, match=r"^keys: .*(a list|the path of a file), not"):
        gw.load(tmp_path / "m.om", keys=keys)


def test_sizes_of_gears_may_be_arrays() -> None:
    gears = gw.Gears(batch=np.array([1, 2]))  # type: ignore[arg-type]  # iterable, as a list is
    (one, two) = (builder().compile(gears=gears).run({"x": X[:n]})["twice"] for n in (1, 2))
    np.testing.assert_array_equal(two, 2 * X)
    np.testing.assert_array_equal(one, 2 * X[:1])

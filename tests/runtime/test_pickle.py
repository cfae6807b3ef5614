"""Models cross to other processes, and are copied: pickled as their ``.om``."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import Diagnostic, UnknownOpError
from graphwright.package.read import read_package
from graphwright.package.sign import user_key
from tests.onnx_models import onnx_model
from tests.package.models import Classifier, rank_by_size

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def small(**arguments: Any) -> gw.Model:
    """y = relu(x @ w)."""
    b = gw.GraphBuilder()
    b.output("y", b.relu(b.matmul(b.input("x", "f32", ("N", 4)), np.ones((4, 2), np.float32))))
    return b.compile(**arguments)


COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "oldest protocol": lambda model: pickle.loads(pickle.dumps(model, 2)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"shapes": {"x": (3, 4)}},
        {"gears": {"x": [(3, 4), (8, 4)]}},
        {"gears": gw.Gears({"x": [(2, 4), (8, 4)]}, between="pad")},
        {"options": {"device": "reference"}},
        {"specialize": "hot"},
    ],
    ids=["open", "static", "gears", "padded", "reference", "hot"],
)
def test_a_copy_computes_the_same(way: str, arguments: dict[str, Any]) -> None:
    model = small(**arguments)
    model.threads = 1
    made = COPIES[way](model)
    np.testing.assert_array_equal(made(X)[0], np.maximum(X @ np.ones((4, 2), np.float32), 0))
    assert made.threads == 1 and made.inputs == model.inputs and type(made.executor) is type(model.executor)
    assert model.stats()["runs"] == 0 and made.stats()["runs"] == 1


def test_host_programs_and_dispatches_are_copied(options: Options) -> None:
    model = gw.compile(rank_by_size(), options=options)
    feeds = {
        spec.name: np.ones([2 if isinstance(d, str) else d for d in spec.shape or ()], spec.dtype.numpy)
        for spec in model.inputs
    }
    wanted = model.run(feeds)
    for way in COPIES.values():
        for name, array in way(model).run(feeds).items():
            np.testing.assert_array_equal(array, wanted[name])


def test_a_model_of_unknown_rank_is_copied(options: Options) -> None:
    from onnx import TensorProto, helper

    node = helper.make_node("Relu", ["x"], ["y"])
    spec = (TensorProto.FLOAT, None)
    made = pickle.loads(
        pickle.dumps(gw.compile(onnx_model([node], {"x": spec}, {"y": spec}), options=options))
    )
    for array in (X, X[None], X[0]):
        np.testing.assert_array_equal(made(array)[0], np.maximum(array, 0))


def test_workers_that_are_spawned_run_it() -> None:
    model = small()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        np.testing.assert_array_equal(pool.submit(model, X).result()[0], model(X)[0])
        with pytest.raises(gw.FeedError, match="takes f32, not float64") as caught:
            pool.submit(model, X.astype(np.float64)).result()
    assert caught.value.diagnostics[0].code == "feed-dtype"


def test_the_users_key_is_not_in_the_pickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Options
) -> None:
    monkeypatch.setenv("GRAPHWRIGHT_KEY_DIR", str(tmp_path / "key"))
    data = pickle.dumps(small())
    assert (tmp_path / "key" / "signing.key").read_bytes() not in data
    pickle.loads(data).save(tmp_path / "m.om")  # signed as it was, so that this user's load trusts it
    key = user_key(tmp_path / "key", create=False)
    assert key is not None and read_package(tmp_path / "m.om", keys=[key]).isas()
    assert gw.load(tmp_path / "m.om").package.isas()


def test_a_deep_copy_shares_the_weights_and_nothing_else(classifier: Classifier, model: gw.Model) -> None:
    made = copy.deepcopy(model)
    assert made.package.weights is model.package.weights and made.executor is not model.executor
    np.testing.assert_array_equal(made(classifier.x)[0], model(classifier.x)[0])


def test_sessions_are_pickled(tmp_path: Path) -> None:
    small().save(tmp_path / "m.om")
    made = pickle.loads(pickle.dumps(gw.InferenceSession(tmp_path / "m.om")))
    assert made.run(None, {"x": X})[0].shape == (3, 2)


@pytest.mark.parametrize("kind", [gw.ModelError, gw.FeedError, gw.OptionError, gw.PackageError])
def test_errors_can_be_pickled(kind: type[gw.GraphwrightError]) -> None:
    error = kind(Diagnostic("a", "first", "here", "do"), Diagnostic("b", "second"))
    made = pickle.loads(pickle.dumps(error))
    assert type(made) is kind and made.diagnostics == error.diagnostics and str(made) == str(error)
    unknown = pickle.loads(pickle.dumps(UnknownOpError("Snake", Diagnostic("a", "first"))))
    assert (unknown.name, str(unknown)) == ("Snake", "first [a]")

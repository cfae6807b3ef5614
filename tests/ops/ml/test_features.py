"""Scalers, encoders, imputers and mappers of ``ai.onnx.ml`` compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import graphwright as gw
from graphwright.runtime.executor import RunError
from tests.ops.ml.support import DTYPES, assert_same, compare, model_of, numbers, rows, runtime


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 3])
def test_scalers_equal_onnx_runtime(dtype: Any, count: int) -> None:
    compare("Scaler", rows(4, 3, dtype=dtype), offset=numbers(count), scale=numbers(count, seed=2))


def test_scalers_round_doubles_last() -> None:
    compare("Scaler", np.array([[2.0**30 + 1, 3, 5]]), offset=[2.0**30], scale=[2.0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizers_equal_onnx_runtime(dtype: Any, norm: str) -> None:
    x = rows(5, 3, dtype=dtype)
    x[1], x[2] = 0, -np.abs(x[2])
    compare("Normalizer", x, norm=norm)


@pytest.mark.parametrize("values", [[0.5], [0.5, -1.0, 2.0]])
@pytest.mark.parametrize("replaced", [float("nan"), 1.0])
def test_imputers_of_floats_equal_onnx_runtime(values: list[float], replaced: float) -> None:
    x = rows(5, 3)
    x[1, 0] = x[2, 2] = np.nan
    x[3] = 1
    compare("Imputer", x, imputed_value_floats=values, replaced_value_float=replaced)


def test_imputers_of_integers_equal_onnx_runtime() -> None:
    compare("Imputer", rows(5, 3, dtype=np.int64), imputed_value_int64s=[7, 8, 9], replaced_value_int64=0)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64])
def test_one_hot_encoders_equal_onnx_runtime(dtype: Any) -> None:
    compare("OneHotEncoder", rows(6, 2, dtype=dtype), cats_int64s=[-1, 0, 2, 1], zeros=1)


def test_one_hot_encoders_of_texts() -> None:
    x = np.array([["a"], ["?"], ["b"]], object)
    compare("OneHotEncoder", x, cats_strings=["b", "a"])
    strict = gw.compile(model_of("OneHotEncoder", {"x": x}, cats_strings=["b", "a"], zeros=0))
    with pytest.raises(RunError, match=r"'\?' is not a category"):
        strict(x)


def test_category_mappers_equal_onnx_runtime() -> None:
    pairs: dict[str, Any] = {"cats_strings": ["a", "b"], "cats_int64s": [4, 5]}
    compare("CategoryMapper", np.array([["a"], ["b"], ["c"]], object), default_int64=-7, **pairs)
    compare("CategoryMapper", np.array([[5], [4], [6]]), default_string="none", **pairs)


KEYS = {"strings": ["a", "b", "c"], "int64s": [1, 2, 0], "floats": [0.5, float("nan"), -1.0]}
FED: dict[str, Any] = {
    "strings": np.array([["b"], ["?"], ["c"]], object),
    "int64s": np.array([[2], [9], [0]]),
    "floats": np.array([[np.nan], [0.25], [-1.0]], np.float32),
}


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("keys", list(KEYS))
@pytest.mark.parametrize("values", list(KEYS))
def test_label_encoders_equal_onnx_runtime(version: int, keys: str, values: str) -> None:
    """ONNX Runtime finds NaN keys from version 4 on; the ONNX specification requires it from version 2 on."""
    given: dict[str, Any] = {f"keys_{keys}": KEYS[keys], f"values_{values}": KEYS[values]}
    compare("LabelEncoder", FED[keys][int(version < 4) :], version, **given)


def test_of_equal_keys_the_first_value_and_the_last_category_count() -> None:
    """The first of equal keys counts for values, and the last for categories."""
    x, texts = np.array([[1], [2], [3]]), np.array([["a"], ["b"]], object)
    for version in (2, 4):
        compare("LabelEncoder", x, version, keys_int64s=[1, 2, 2, 1], values_int64s=[10, 20, 30, 40])
        compare("LabelEncoder", texts, version, keys_strings=["a", "a", "b"], values_int64s=[10, 20, 30])
    compare("LabelEncoder", texts, classes_strings=["a", "b", "a"])
    compare("CategoryMapper", texts, cats_strings=["a", "b", "a"], cats_int64s=[1, 2, 3])
    compare("CategoryMapper", x, cats_strings=["a", "b", "c"], cats_int64s=[1, 1, 3])


def test_feature_vectorizers_equal_onnx_runtime() -> None:
    inputs = {"a": rows(4, 2), "b": rows(4, 3, 1), "c": rows(4, 1, 2)}
    model = model_of("FeatureVectorizer", inputs, inputdimensions=[2, 3, 1])
    assert_same(gw.compile(model)(*inputs.values()), runtime(model, inputs))


@pytest.mark.parametrize("widths", [[1, 3], [4, 1], [0, 5], [2, 0]])
def test_feature_vectorizers_cut_rows_or_fill_them_with_zeros(widths: list[int]) -> None:
    inputs = {"a": rows(4, 2), "b": rows(4, 3)}
    model = model_of("FeatureVectorizer", inputs, inputdimensions=widths)
    (found,) = gw.compile(model)(*inputs.values())
    wide = [np.pad(x, ((0, 0), (0, 5)))[:, :width] for x, width in zip(inputs.values(), widths, strict=True)]
    np.testing.assert_array_equal(found, np.concatenate(wide, 1))


def test_feature_vectorizers_of_more_axes() -> None:
    x = rows(2, 12).reshape(2, 3, 4)
    compare("FeatureVectorizer", x, inputdimensions=[12])
    compare("FeatureVectorizer", rows(1, 3)[0], inputdimensions=[3])


def test_dynamic_widths_must_equal_those_of_the_attribute() -> None:
    model = onnx.load_from_string(model_of("FeatureVectorizer", {"x": rows(2, 3)}, inputdimensions=[3]))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "W"
    made = gw.compile(model)
    np.testing.assert_array_equal(made(rows(2, 3))[0], rows(2, 3))
    with pytest.raises(gw.FeedError, match="axis 1 of 'x' must be 3, but is 4"):
        made(rows(2, 4))

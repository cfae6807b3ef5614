"""Ops on strings, and those of ai.onnx.ml, against Python, closed forms and ONNX Runtime."""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import graphwright
from graphwright.config import Options
from graphwright.errors import ModelError
from graphwright.ir.types import type_of
from graphwright.ops.text import tf_idf_vectorizer
from graphwright.ops.text.patterns import compiled
from graphwright.ops.text.regex_full_match import RegexFullMatch
from graphwright.ops.text.tf_idf_vectorizer import TfIdfVectorizer

from .peer import imported, runtime

RNG = np.random.default_rng(11)


def texts(*values: str) -> Any:
    return np.array([*values, None], dtype=object)[:-1]


def assert_same(actual: Any, expected: Any) -> None:
    assert type_of(actual) == type_of(expected)
    np.testing.assert_array_equal(actual, expected)


def peers(op_type: str, arrays: list[Any], attributes: dict[str, Any], opset: int, outputs: int = 1) -> None:
    ours = imported(op_type, arrays, attributes, opset, outputs)
    for a, e in zip(ours, runtime(op_type, arrays, attributes, opset, outputs), strict=True):
        assert_same(a, e)


def ml_model(op_type: str, version: int, arrays: list[Any], attributes: dict[str, Any]) -> bytes:
    """A model of one node of ai.onnx.ml, its first axis symbolic."""
    names = [f"x{k}" for k in range(len(arrays))]
    node = helper.make_node(op_type, names, ["y"], domain="ai.onnx.ml", **attributes)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(a.dtype), [f"{name}_n", *a.shape[1:]] if a.ndim else []
        )
        for name, a in zip(names, arrays, strict=True)
    ]
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "g", inputs, [output])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", version)]
    serialized: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return serialized


def ours(model: bytes, arrays: list[Any], device: str) -> Any:
    options = replace(Options.from_environment(), device=device)
    compiled = graphwright.compile(model, options=options)
    return compiled.run({f"x{k}": a for k, a in enumerate(arrays)})["y"]


def theirs(model: bytes, arrays: list[Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    return np.asarray(session.run(None, {f"x{k}": a for k, a in enumerate(arrays)})[0])


def devices(*arrays: Any) -> tuple[str, ...]:
    """Numbers run natively as well."""
    return ("reference",) if any(a.dtype == object for a in arrays) else ("reference", "cpu")


# Strings


@pytest.mark.parametrize("case", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
@pytest.mark.parametrize("stopwords", [["Mon", "tue"], ["none"], ["mon", "TUE", "Mon", "tue", "wed"]])
def test_normalizer_is_that_of_onnx_runtime(case: str, sensitive: int, stopwords: list[str]) -> None:
    attributes = {"case_change_action": case, "is_case_sensitive": sensitive, "stopwords": stopwords}
    attributes["locale"] = "C"  # the only one that every machine has
    for x in (texts("Mon", "tue", "Mon", "wed"), texts("mon", "Tue").reshape(1, 2)):
        peers("StringNormalizer", [x], attributes, 10)


def test_normalizer_leaves_one_empty_string() -> None:
    for x in (texts(), texts("a"), texts("a").reshape(1, 1)):
        (y,) = imported("StringNormalizer", [x], {"stopwords": ["A"]}, 10)
        assert_same(y, texts("").reshape((1,) * x.ndim))


def test_normalizer_rejects_languages_with_their_own_cases() -> None:
    x = [texts("i")]
    (y,) = imported("StringNormalizer", x, {"case_change_action": "UPPER", "locale": "en_US"}, 10)
    assert_same(y, texts("I"))
    with pytest.raises(Exception, match="the case mappings of locale"):
        imported("StringNormalizer", x, {"case_change_action": "UPPER", "locale": "tr_TR"}, 10)


@pytest.mark.parametrize("delimiter", ["", ",", "ab"])
@pytest.mark.parametrize("maxsplit", [None, 1, 2])
def test_split_is_that_of_onnx_runtime(delimiter: str, maxsplit: int | None) -> None:
    x = texts("a,b,,c", " one  two three", ",", "abab", "xabyab", "q").reshape(2, 3)
    attributes: dict[str, Any] = {"delimiter": delimiter}
    attributes |= {} if maxsplit is None else {"maxsplit": maxsplit}
    peers("StringSplit", [x], attributes, 20, outputs=2)


def test_split_of_nothing() -> None:
    y, counts = imported("StringSplit", [texts("", "  ")], {}, 20, outputs=2)
    assert_same(y, np.empty((2, 0), dtype=object))
    assert_same(counts, np.array([0, 0]))
    y, counts = imported("StringSplit", [texts("", "")], {"delimiter": "-"}, 20, outputs=2)
    assert_same(y, texts("", "").reshape(2, 1))
    assert_same(counts, np.array([1, 1]))


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=3))
@settings(deadline=None, max_examples=30)
def test_concat_broadcasts(left: list[str], right: list[str]) -> None:
    x, y = texts(*left).reshape(-1, 1), texts(*right)
    (z,) = imported("StringConcat", [x, y], {}, 20)
    expected = np.empty((len(left), len(right)), dtype=object)
    for i, j in itertools.product(range(len(left)), range(len(right))):
        expected[i, j] = left[i] + right[j]
    assert_same(z, expected)


# Regular expressions

ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\W", r"\b", r"\B", "^", "(?:)", "[a-c_]", r"\.", "-"]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])).map(
            "(?:{0[0]}){0[1]}".format
        ),
        inner.map("({})".format),
        inner.map("(?i:{})".format),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.lists(st.text("abAB.-_ \n", max_size=6), min_size=1, max_size=6))
@settings(deadline=None, max_examples=400)
def test_patterns_of_both_syntaxes_match_as_in_python(pattern: str, candidates: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        python = re.compile(pattern, re.ASCII)
    candidates = [text for text in candidates if text or r"\B" not in pattern]
    # Python before 3.14 sees no place between words in an empty text
    wanted = [python.fullmatch(text) is not None for text in candidates]
    assert RegexFullMatch(pattern).reference(texts(*candidates)).tolist() == wanted


@pytest.mark.parametrize(
    "pattern, inside, outside",
    [
        ("a$", "a", "a\n"),
        (r"\Aa\z", "a", "aa"),
        ("(?m)a$\n^b", "a\nb", "a\nc"),
        ("(?s).", "\n", ""),
        (".", "é", "\n"),
        ("(?i)\u017f", "S", "t"),
        ("(?i)[k-l]", "K", "m"),
        ("(?i)[^k]", "l", "K"),
        ("(?i:a)b", "Ab", "AB"),
        ("a(?i)b|c", "C", "A"),
        ("(?i)a(?-i)b", "Ab", "AB"),
        ("((?i)a)b", "Ab", "AB"),
        (r"\d", "7", "\u0667"),
        (r"\s", "\f", "\v"),
        (r"[[:space:]]", "\v", "\x00"),
        (r"[[:^alpha:]_]", "_", "a"),
        (r"[]a]", "]", "b"),
        (r"[[:word]+", "w[", "]"),
        (r"[^]a]", "b", "]"),
        (r"[a\-z]", "-", "b"),
        (r"[a-]", "-", "b"),
        (r"[\d\pL]+", "7é", "_"),
        (r"\pN\p{Lu}\p{^L}\PL", "\u0667É_-", "7éaa"),
        (r"\x41\x{1F600}\101\0", "A\U0001f600A\x00", "A"),
        (r"\Q.*\E+", ".**", "ab"),
        ("a{,2}", "a{,2}", "aa"),
        ("a{2}?", "aa", "a"),
        ("(?P<x>a)(?<y>b)", "ab", "a"),
        ("a||b", "", "ab"),
        ("(a*)*b", "a" * 300 + "b", "a" * 300),
    ],
)
def test_syntax_of_re2(pattern: str, inside: str, outside: str) -> None:
    x = texts(inside, outside)
    assert RegexFullMatch(pattern).reference(x).tolist() == [True, False]
    peers("RegexFullMatch", [x], {"pattern": pattern}, 20)


@pytest.mark.parametrize(
    "pattern",
    ["a**", "a++", "*", "a{1001}", "a{3,2}", "a{2}{3}", "(", ")", "(?P=x)", r"\1",
     r"\q", "[b-a]", "[a", "[", r"[a-\d]", "[[:no:]]", r"\p{Klingon}", r"\x{110000}", "\\",
     "(?<=a)b", "(?>a)", "((a{99}){99}){99}"],
)  # fmt: skip
def test_patterns_that_are_rejected(pattern: str) -> None:
    with pytest.raises(
        ModelError, match=r"pattern .*: (missing|invalid|bad|no argument|trailing|unexpected|duplicate)"
    ):
        imported("RegexFullMatch", [texts("a")], {"pattern": pattern}, 20)


def test_a_model_says_which_extra_its_patterns_need(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "re2", None)  # as if it were not installed
    with pytest.raises(ModelError, match=r"google-re2: pip install 'graphwright\[text\]'"):
        imported("RegexFullMatch", [texts("a")], {"pattern": "a"}, 20)


# N-grams


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("lengths, skips", [((1, 1), 3), ((2, 2), 0), ((2, 2), 3), ((1, 2), 1), ((1, 3), 2)])
def test_ngrams_are_those_of_onnx_runtime(mode: str, lengths: tuple[int, int], skips: int) -> None:
    pool = [0, 1, 3, 0, 1, 1, 1, 2, 3, 0, 1, 2, 3, 3, 3]
    attributes = {
        "mode": mode, "ngram_counts": [0, 3, 9], "ngram_indexes": list(range(8)), "pool_int64s": pool,
        "min_gram_length": lengths[0], "max_gram_length": lengths[1], "max_skip_count": skips,
        "weights": [1.0, 0.5, 2.0, 3.0, 0.25, 1.5, 4.0, 8.0],
    }  # fmt: skip
    words = {k: v for k, v in attributes.items() if k != "pool_int64s"} | {
        "pool_strings": list(map(str, pool))
    }
    for shape in ((12,), (3, 7), (2, 1)):
        x = RNG.integers(0, 4, shape)
        peers("TfIdfVectorizer", [x], attributes, 9)
        peers("TfIdfVectorizer", [x.astype(np.int32)], attributes, 9)
        peers("TfIdfVectorizer", [texts(*map(str, x.ravel())).reshape(shape)], words, 9)


def test_weights_belong_to_ngrams_and_not_to_their_positions() -> None:
    attributes = {
        "mode": "TFIDF", "ngram_counts": [0], "ngram_indexes": [2, 0], "pool_int64s": [7, 8],
        "weights": [10.0, 0.5], "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0,
    }  # fmt: skip
    (y,) = imported("TfIdfVectorizer", [np.array([7, 7, 8])], attributes, 9)
    assert_same(y, np.array([0.5, 0, 20], np.float32))


@pytest.mark.parametrize("pool", [np.array([7, 8, 9]), texts("7", "8", "9")], ids=["numbers", "texts"])
def test_the_ngrams_of_a_constant_pool_are_made_once_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, pool: Any
) -> None:
    """A table is rebuilt when a pool that is not constant changes, and another array is never mistaken for
    it.
    """
    made: list[Any] = []
    before = len(tf_idf_vectorizer._GRAMS_OF_TEXTS)
    table = TfIdfVectorizer._table
    monkeypatch.setattr(TfIdfVectorizer, "_table", lambda op, pool: made.append(0) or table(op, pool))
    op, rest = TfIdfVectorizer("TF", 3, (0,), 1, 1, 0), (np.arange(3), np.ones(3, np.float32))
    tokens = pool[[0, 0, 2, 1]]
    changing = pool.copy()
    assert op.reference(tokens, changing, *rest).tolist() == [2, 1, 1]
    changing[:2] = changing[1::-1].copy()
    assert op.reference(tokens, changing, *rest).tolist() == [1, 2, 1]
    assert len(made) == 2
    for order, wanted in (([0, 1, 2], [2, 1, 1]), ([2, 1, 0], [1, 1, 2])):
        constant = pool[order]
        constant.flags.writeable = False
        found = [op.reference(tokens, constant, *rest).tolist() for _ in range(3)]
        assert found == [wanted] * 3
    assert len(made) == 4
    del constant
    assert len(tf_idf_vectorizer._GRAMS_OF_TEXTS) <= before


# ai.onnx.ml


@pytest.mark.parametrize(
    "x, attributes",
    [
        (texts("b", "x", "a"), {"keys_strings": ["a", "b"], "values_floats": [1.5, -2.0]}),
        (
            texts("b", "x", "a"),
            {"keys_strings": ["a", "b"], "values_strings": ["A", "B"], "default_string": "?"},
        ),
        (np.array([3, 9, -1]), {"keys_int64s": [9, 3], "values_strings": ["nine", "three"]}),
        (np.array([[3, 9, -1]]), {"keys_int64s": [9, 3], "values_int64s": [5, 6], "default_int64": -7}),
        (np.array([3, 9, -1]), {"keys_int64s": [9, 3], "values_floats": [5.0, 6.0]}),
        (
            np.array([np.nan, 0.5, np.inf, -np.inf, 1], np.float32),
            {"keys_floats": [np.inf, 0.5, np.nan], "values_int64s": [5, 6, 7]},
        ),
    ],
)
def test_labels_are_those_of_onnx_runtime(x: Any, attributes: dict[str, Any]) -> None:
    model = ml_model("LabelEncoder", 2, [x], attributes)
    # ONNX Runtime maps NaN from opset 4 on, ONNX at opset 2 already.
    expected = theirs(ml_model("LabelEncoder", 4, [x], attributes), [x])
    numbers = "strings" not in "".join(attributes)
    for device in ("reference", "cpu") if numbers else ("reference",):
        assert_same(ours(model, [x], device), expected)


def test_the_first_of_equal_keys_counts() -> None:
    """ONNX Runtime does the same; the standard does not define it."""
    x = np.array([9, 3, 9, 4])
    lists = {"keys_int64s": [9, 3, 9], "values_int64s": [5, 6, 7]}
    for device in devices(x):
        y = ours(ml_model("LabelEncoder", 4, [x], lists), [x], device)
        assert_same(y, np.array([5, 6, 5, -1]))


def test_labels_of_opset_1() -> None:
    """The last of equal classes counts, as in ONNX Runtime."""
    classes = {"classes_strings": ["a", "b", "a"]}
    x = texts("b", "a", "x")
    assert_same(ours(ml_model("LabelEncoder", 1, [x], classes), [x], "reference"), np.array([1, 2, -1]))
    k = np.array([2, 1, 3, -1])
    expected = texts("a", "b", "_Unused", "_Unused")
    assert_same(ours(ml_model("LabelEncoder", 1, [k], classes), [k], "reference"), expected)


def test_labels_in_tensors() -> None:
    keys, values = np.array([4, -4, 0], np.int16), np.array([0.5, 1.5, np.inf])
    attributes = {
        "keys_tensor": numpy_helper.from_array(keys), "values_tensor": numpy_helper.from_array(values),
        "default_tensor": numpy_helper.from_array(np.array([-1.0])),
    }  # fmt: skip
    x = np.array([0, 4, 5, -4, -5], np.int16)
    for device in devices(x):
        y = ours(ml_model("LabelEncoder", 4, [x], attributes), [x], device)
        assert_same(y, np.array([np.inf, 0.5, -1, 1.5, -1]))


def test_labels_with_two_lists_of_keys_are_rejected() -> None:
    x = np.array([1])
    lists = {"keys_int64s": [1], "keys_floats": [1.0], "values_int64s": [1]}
    with pytest.raises(ModelError, match="not keys_int64s, keys_floats"):
        ours(ml_model("LabelEncoder", 4, [x], lists), [x], "reference")


@pytest.mark.parametrize(
    "x", [RNG.normal(size=5).astype(np.float32), RNG.normal(size=(2, 3, 5)), np.arange(5)]
)
def test_features_are_those_of_onnx_runtime(x: Any) -> None:
    chosen = np.array([4, 0, 4])
    model = ml_model("ArrayFeatureExtractor", 1, [x, chosen], {})
    for device in devices(x):
        assert_same(ours(model, [x, chosen], device), theirs(model, [x, chosen]))


@pytest.mark.parametrize("threshold", [0.0, -1.5, 2.0, 1e30, -1e30])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_binarizer_compares_in_f64(threshold: float, dtype: str) -> None:
    x = np.array([-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1]).astype(dtype)
    model = ml_model("Binarizer", 1, [x], {"threshold": threshold})
    for device in devices(x):
        assert_same(ours(model, [x], device), (x.astype(np.float64) > np.float32(threshold)).astype(dtype))


# Trees

FEATURES = 4


def forest(rng: np.random.Generator, trees: int, targets: int, modes: tuple[int, ...]) -> dict[str, Any]:
    """Attributes of random trees; each inner node's children are leaves, or nodes that no other has."""
    nodes: list[tuple[int, ...]] = []
    leaves: list[int] = []
    roots = []

    def grow(depth: int) -> tuple[int, int]:
        if depth == 0 or (depth < 3 and rng.random() < 0.3):
            leaves.append(int(rng.integers(targets)))
            return len(leaves) - 1, 1
        nodes.append(())
        place = len(nodes) - 1
        nodes[place] = (*grow(depth - 1), *grow(depth - 1))
        return place, 0

    for _ in range(trees):
        roots.append(grow(3)[0])
    count = len(nodes)
    true, true_leaf, false, false_leaf = zip(*nodes, strict=True)
    kinds = rng.choice(modes, count).astype(np.uint8)
    splits = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], count).astype(np.float32)
    members: list[float] = []
    for _ in range(int((kinds == 6).sum())):
        members += [*rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], int(rng.integers(1, 4)), replace=False), np.nan]
    weights = rng.normal(size=len(leaves)).astype(np.float32)
    attributes = {
        "n_targets": targets, "tree_roots": roots, "nodes_splits": splits, "nodes_modes": kinds,
        "nodes_featureids": rng.integers(0, FEATURES, count).tolist(),
        "nodes_missing_value_tracks_true": rng.integers(0, 2, count).tolist(),
        "nodes_truenodeids": true, "nodes_trueleafs": true_leaf,
        "nodes_falsenodeids": false, "nodes_falseleafs": false_leaf,
        "leaf_targetids": leaves, "leaf_weights": weights,
    }  # fmt: skip
    attributes |= {"membership_values": np.array(members, np.float32)} if members else {}
    return {
        k: numpy_helper.from_array(v, k) if isinstance(v, np.ndarray) else v for k, v in attributes.items()
    }


def walked(attributes: dict[str, Any], x: Any) -> list[list[tuple[int, float]]]:
    """For each row and tree, the target and weight of its leaf, found node by node."""
    a = {k: numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for k, v in attributes.items()}
    members = iter(
        np.split(values := a.get("membership_values", np.zeros(0)), np.flatnonzero(np.isnan(values)) + 1)
    )
    sets = {k: set(next(members).tolist()) for k in np.flatnonzero(a["nodes_modes"] == 6)}
    tests = [
        lambda v, s, k: v <= s, lambda v, s, k: v < s, lambda v, s, k: v >= s, lambda v, s, k: v > s,
        lambda v, s, k: v == s, lambda v, s, k: v != s, lambda v, s, k: v in sets[k],
    ]  # fmt: skip
    reached: list[list[tuple[int, float]]] = []
    for row in x:
        reached.append([])
        for root in a["tree_roots"]:
            k, leaf = root, 0
            while not leaf:
                value = float(row[a["nodes_featureids"][k]])
                yes = tests[a["nodes_modes"][k]](value, float(a["nodes_splits"][k]), k)
                yes = yes or (np.isnan(value) and a["nodes_missing_value_tracks_true"][k])
                side = "true" if yes else "false"
                k, leaf = a[f"nodes_{side}nodeids"][k], a[f"nodes_{side}leafs"][k]
            reached[-1].append((a["leaf_targetids"][k], float(a["leaf_weights"][k])))
    return reached


def scores(attributes: dict[str, Any], x: Any, aggregate: int) -> Any:
    folds: list[Any] = [lambda w: sum(w) / len(attributes["tree_roots"]), sum, min, max]
    y = np.zeros((len(x), attributes["n_targets"]))
    for row, leaves in zip(y, walked(attributes, x), strict=True):
        for target in range(len(row)):
            weights = [w for t, w in leaves if t == target]
            row[target] = folds[aggregate](weights) if weights else 0.0
    return y


@pytest.mark.parametrize("modes", [(0,), (1, 2, 3), (0, 4, 5), (6,), (0, 1, 2, 3, 4, 5, 6)])
@pytest.mark.parametrize("trees, targets, aggregate", [(1, 1, 1), (5, 1, 0), (4, 3, 1), (3, 2, 2), (3, 2, 3)])
def test_trees_are_walked(modes: tuple[int, ...], trees: int, targets: int, aggregate: int) -> None:
    rng = np.random.default_rng(100 * trees + aggregate + len(modes))
    attributes = forest(rng, trees, targets, modes)
    x = rng.choice([-1.0, -0.75, -0.5, 0.0, -0.0, 0.5, 1.0, np.inf, np.nan], (40, FEATURES)).astype(
        np.float32
    )
    model = ml_model("TreeEnsemble", 5, [x], {**attributes, "aggregate_function": aggregate})
    for device in devices(x) if trees > 3 else ("reference",):
        y = ours(model, [x], device)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, scores(attributes, x, aggregate), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("transform", range(4))
def test_scores_are_transformed(transform: int) -> None:
    rng = np.random.default_rng(5)
    attributes = forest(rng, 3, 4, (0, 1))
    x = rng.normal(size=(9, FEATURES)).astype(np.float32)
    plain = scores(attributes, x, 1)
    powers = np.exp(plain)
    kept = powers * (plain != 0)
    expected = [
        plain, powers / powers.sum(1, keepdims=True), powers / (1 + powers), kept / kept.sum(1, keepdims=True)
    ][transform]  # fmt: skip
    model = ml_model("TreeEnsemble", 5, [x], {**attributes, "post_transform": transform})
    for device in devices(x):
        np.testing.assert_allclose(ours(model, [x], device), expected, rtol=1e-5, atol=1e-6)


def test_trees_are_those_of_onnx_runtime() -> None:
    rng = np.random.default_rng(3)
    attributes = forest(rng, 6, 3, (0, 1, 2, 3, 4))
    x = rng.normal(size=(50, FEATURES)).astype(np.float32)
    model = ml_model("TreeEnsemble", 5, [x], attributes)
    np.testing.assert_allclose(ours(model, [x], "cpu"), theirs(model, [x]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"tree_roots": [99]}, "roots out of bounds"),
        ({"nodes_truenodeids": (0,), "nodes_trueleafs": (0,)}, "has a cycle"),
        ({"nodes_truenodeids": (7,)}, "has the child 7, but there are 2 leaves and 1 nodes"),
        ({"nodes_featureids": [0, 1]}, "empty or differ in length"),
        ({"leaf_targetids": [0, 9]}, "target is not below 2"),
        ({"aggregate_function": 4}, "aggregate_function 4"),
        ({"nodes_featureids": [4]}, "the number of features"),
        ({"nodes_splits": numpy_helper.from_array(np.zeros(1))}, "nodes_splits is float64"),
        ({"nodes_modes": numpy_helper.from_array(np.array([7], np.uint8))}, "mode 7"),
    ],
)
def test_malformed_trees_are_rejected(change: dict[str, Any], message: str) -> None:
    stump = {
        "n_targets": 2, "tree_roots": [0], "nodes_splits": numpy_helper.from_array(np.zeros(1, np.float32)),
        "nodes_modes": numpy_helper.from_array(np.zeros(1, np.uint8)), "nodes_featureids": [0],
        "nodes_truenodeids": (0,), "nodes_trueleafs": (1,), "nodes_falsenodeids": (1,),
        "nodes_falseleafs": (1,), "leaf_targetids": [0, 1],
        "leaf_weights": numpy_helper.from_array(np.ones(2, np.float32)),
    }  # fmt: skip
    x = np.zeros((2, FEATURES), np.float32)
    np.testing.assert_array_equal(
        ours(ml_model("TreeEnsemble", 5, [x], stump), [x], "reference"), [[1, 0], [1, 0]]
    )
    with pytest.raises(ModelError, match=message):
        ours(ml_model("TreeEnsemble", 5, [x], {**stump, **change}), [x], "reference")

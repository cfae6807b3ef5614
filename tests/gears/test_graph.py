"""Gears as a graph: BucketIndex and a Case of regions, printed, parsed, evaluated and taken apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright import ops
from graphwright.compiler.buckets import bucket_modules
from graphwright.compiler.recompile import unpacked_module
from graphwright.config import Options
from graphwright.frontends.onnx import load
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module, Role
from graphwright.ir.text import parse_module, print_module
from graphwright.ir.verify import verify
from graphwright.passes.buckets import SIZES, joined_module, split_module

from .models import FLOAT, cnn, images, node, onnx_model

ops.load()
GOLDEN = Path(__file__).parent / "golden"
MODES = ("error", "pad", "dynamic")


def small() -> bytes:
    """``relu(x @ w)`` of ``x: f32[N, 2]``."""
    return onnx_model(
        [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])],
        {"x": (FLOAT, ["N", 2])},
        {"y": (FLOAT, ["N", 3])},
        {"w": np.arange(6, dtype=np.float32).reshape(2, 3)},
    )


def joined(model: bytes, between: str, **choice: Any) -> Module:
    gears = gw.Gears(between=between, **choice)
    return joined_module(bucket_modules(load(model), gears, Options()))


@pytest.mark.parametrize("between", MODES)
def test_the_text_matches_the_golden_file(between: str, golden: Callable[[Path, str], None]) -> None:
    module = joined(small(), between, batch=(1, 4))
    verify(module)
    text = print_module(module)
    golden(GOLDEN / f"{between}.txt", text)
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize("between", MODES)
def test_splitting_a_joined_module_gives_the_gears_again(between: str) -> None:
    module = joined(small(), between, batch=(1, 4))
    found = split_module(module)
    assert found is not None and found.otherwise == between
    assert [str(gear.main.inputs[0].type) for gear in found.buckets] == ["f32[1, 2]", "f32[4, 2]"]
    assert (found.dynamic is not None) == (between == "dynamic")
    assert [str(v.type) for v in (*found.outer.main.inputs, *found.outer.main.outputs)] == [
        "f32[N, 2]",
        "f32[N, 3]",
    ]
    for gear in found.buckets:
        verify(gear)
        x = images(*gear.main.inputs[0].type.sizes)
        np.testing.assert_array_equal(
            evaluate_module(gear, [x])[0], np.maximum(x @ np.arange(6.0).reshape(2, 3).astype(np.float32), 0)
        )
    assert split_module(load(small())) is None


@pytest.mark.parametrize("between", MODES)
def test_the_graph_of_a_package_means_what_the_model_does(between: str, options: Options) -> None:
    choice = {"image": [(16, 16), (12, 20)]} if between != "pad" else {}
    shapes = {"x": ["N", 3, 16, 16]} if between == "pad" else None
    model = gw.compile(
        cnn(), shapes=shapes, gears=gw.Gears(batch=(1, 3), between=between, **choice), options=options
    )  # type: ignore[arg-type]  # shapes as a user writes them
    module = unpacked_module(model.package)
    inputs = module.main.inputs
    assert [v.name for v in inputs] == ["x", SIZES] and module.signatures["main"].roles == (
        Role.DATA,
        Role.SIZES,
    )
    for shape in {
        "error": [(1, 3, 12, 20), (3, 3, 16, 16)],
        "pad": [(2, 3, 16, 16)],
        "dynamic": [(2, 3, 8, 9)],
    }[between]:
        x = images(*shape)
        (want,) = evaluate_module(module, [x, np.array(shape)])
        np.testing.assert_allclose(model(x)[0], want, rtol=1e-4, atol=1e-6)


def test_constants_are_in_the_pool_once() -> None:
    module = joined(cnn(), "error", batch=(1, 2), image=[(8, 8), (16, 16)])
    assert len(module.constants) == 5 == len(load(cnn()).constants)


def test_an_input_may_have_the_name_of_the_gear_sizes() -> None:
    model = onnx_model([node("Neg", [SIZES], ["y"])], {SIZES: (FLOAT, ["N"])}, {"y": (FLOAT, ["N"])})
    compiled = gw.compile(model, gears=gw.Gears(batch=(1, 2)), options=Options(device="reference"))
    assert [spec.name for spec in compiled.inputs] == [SIZES]
    assert compiled.run({SIZES: np.ones(2, np.float32)})["y"].tolist() == [-1, -1]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("Case[branches=2", "Case[branches=1"),
        lambda text: text.replace("buckets=((1, 2), (4, 2))", "buckets=((1, 2), (4, 2), (5, 2))"),
        lambda text: text.replace("buckets=((1, 2), (4, 2))", "gears=((1, 2, 3), (4, 2, 3))"),
        lambda text: text.replace("buckets=((1, 2), (4, 2))", "buckets=((1, 2), (9, 9))"),
        lambda text: text.replace("(4, 2))]", '(4, 2)), otherwise="sideways"]'),
        lambda text: text.replace("(4, 2))]", '(4, 2)), otherwise="dynamic"]'),
        lambda text: text.replace("signature main(data, sizes)", "signature main(sizes, data)"),
    ],
)
def test_graphs_that_are_not_of_gears_are_rejected(change: Any) -> None:
    text = print_module(joined(small(), "error", batch=(1, 4)))
    assert change(text) != text
    with pytest.raises(gw.GraphwrightError):
        gw.compile(parse_module(change(text)), options=Options(device="reference"))


def test_two_inputs_and_an_output_that_is_an_input() -> None:
    model = onnx_model(
        [node("Add", ["a", "b"], ["s"]), node("Identity", ["a"], ["same"])],
        {"a": (FLOAT, ["N", 2]), "b": (FLOAT, ["N", 2])},
        {"s": (FLOAT, None), "same": (FLOAT, None)},
    )
    for between in MODES:
        compiled = gw.compile(
            model, gears=gw.Gears(batch=(1, 3), between=between), options=Options(device="reference")
        )
        a, b = images(3, 2), images(3, 2, seed=1)
        np.testing.assert_array_equal(compiled(a, b)[0], a + b)
        np.testing.assert_array_equal(compiled(a, b)[1], a)

"""Shapes given to a module: ranges are intersected, names are shared, contradictions are rejected, and runs
are checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import Range, ceildiv, symbol
from graphwright.ir.types import F32, TensorType, tensor
from graphwright.ops.core.binary import Add, Less
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Neg, Relu
from graphwright.ops.core.where import Where
from graphwright.passes.bind_sizes import Shapes, shape_inputs
from tests.executables import guards

N, M, K = map(symbol, "NMK")
END = 2**63 - 1


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    home = tmp_path_factory.mktemp("home")
    return Options(cache_dir=home / "cache", key_dir=home / "key")


def two_inputs() -> Module:
    """``z = relu(x) + y`` over x [N, 3, M] and y [K, 3, M]."""
    module = Module()
    b, (x, y) = new_main_graph(module, [("x", tensor(F32, N, 3, M)), ("y", tensor(F32, K, 3, M))])
    module.main.set_outputs([b(Add(), b(Relu(), x), y)], ["z"])
    return module


def given(shapes: Shapes) -> Module:
    module = two_inputs()
    shape_inputs(module, shapes)
    return module


def shapes_of(module: Module) -> list[str]:
    return [str(value.type) for value in module.main.inputs]


def test_ranges_keep_the_models_names_or_bring_their_own() -> None:
    module = given({"x": ("1..16", None, "W=8..64%8"), "y": ("?", 3, None)})
    assert shapes_of(module) == ["f32[N, 3, 8*W_8]", "f32[K, 3, 8*W_8]"]
    assert module.symbols.ranges["N"] == Range(1, 16) and module.symbols.ranges["W_8"] == Range(1, 8)
    assert "M" not in module.symbols.ranges and "W" not in module.symbols.ranges


def test_axes_of_one_name_are_equal_and_ranges_meet() -> None:
    module = given({"x": ("B=1..16", None, None), "y": (gw.Dim("B", 4, 99), None, range(2, 9, 2))})
    assert shapes_of(module) == ["f32[B, 3, 2*M_2]", "f32[B, 3, 2*M_2]"]
    assert module.symbols.ranges["B"] == Range(4, 16)


def test_a_range_of_one_size_is_that_size() -> None:
    assert shapes_of(given({"x": ("5..5", None, "60..70%32")})) == ["f32[5, 3, 64]", "f32[K, 3, 64]"]


def test_the_models_own_range_and_divisibility_hold_too() -> None:
    module = two_inputs()
    module.symbols.ranges["M"] = Range(10, 100)
    module.symbols.multiples["M"] = 4
    shape_inputs(module, {"x": (None, None, "0..64%6")})
    assert shapes_of(module)[0] == "f32[N, 3, 12*M_12]" and module.symbols.ranges["M_12"] == Range(1, 5)


def test_shapes_can_be_given_again() -> None:
    module = given({"x": (None, None, "64..2048%32")})
    shape_inputs(module, {"x": (2, 3, "100..300%48")})
    assert shapes_of(module)[0] == "f32[2, 3, 96*M_32_3]", "multiples of 32 and of 48"
    assert module.symbols.ranges["M_32_3"] == Range(2, 3)
    shape_inputs(module, {"x": (2, 3, 192)})
    assert shapes_of(module) == ["f32[2, 3, 192]", "f32[K, 3, 192]"]


def test_inputs_of_open_rank_take_ranges() -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", TensorType(F32, None))])
    module.main.set_outputs([b(Neg(), x)], ["y"])
    shape_inputs(module, {"x": ("N=1..4", 3, "2..8%2")})
    assert shapes_of(module) == ["f32[N, 3, 2*x_2_2]"]
    assert module.symbols.ranges["N"] == Range(1, 4) and module.symbols.ranges["x_2_2"] == Range(1, 4)


@pytest.mark.parametrize(
    ("shapes", "texts"),
    [
        (
            {"x": ("N=1..4", 3, None), "y": ("N=5..6", 3, None)},
            ("1 to 4", "axis 0 of input 'x'", "5 to 6", "'y'"),
        ),
        ({"x": (None, 3, "1..3"), "y": (None, 3, "4..9")}, ("no size M is", "1 to 3", "4 to 9")),
        (
            {"x": ("N=1..2", 3, None), "y": ("N=4..9", 3, None)},
            ("no size N is 1 to 2 (axis 0 of input 'x') and 4 to 9 (axis 0 of input 'y') [input-size]",),
        ),
        (
            {"x": (None, 3, "36..44%4"), "y": (None, 3, "?%16")},
            ("36 to 44 in steps of 4", "a multiple of 16"),
        ),
        ({"x": (None, "1..4", None)}, ("axis 1 of input 'x'", "cannot be 1..4: the model has 3")),
        ({"x": (None, 4, None)}, ("axis 1 of input 'x'", "cannot be 4: the model has 3")),
        ({"x": (2, 3, None), "y": (None, 3, None), "z": (1,)}, ("there is no input 'z'", "x, y")),
        ({"x": ("1..4", 3)}, ("2 sizes for input 'x', which has 3 axes",)),
        (
            {"x": (None, None, 4), "y": (None, None, "W")},
            ("axis 2 of input 'y'", "which is 4 on another axis"),
        ),
        ({"x": (None, None, -1)}, ("axis 2 of input 'x'", "cannot be -1")),
        ({"x": (None, None, "7..3")}, ("axis 2 of input 'x'", "no size is 7 to 3")),
        ({"x": (None, None, "seven..9")}, ("axis 2 of input 'x'", "is not a size", "N=1..16")),
    ],
)
def test_contradictory_sizes_are_one_error(shapes: Shapes, texts: tuple[str, ...]) -> None:
    with pytest.raises(gw.FeedError) as caught:
        given(shapes)
    assert len(caught.value.diagnostics) == 1
    assert all(text in str(caught.value) for text in texts), str(caught.value)


def test_all_faults_are_listed() -> None:
    with pytest.raises(gw.FeedError) as caught:
        given({"x": ("3..1", 4, None), "w": (), "y": (None, "1..2", 2.5)})  # type: ignore[dict-item]
    assert len(caught.value.diagnostics) == 5


def test_a_size_outside_of_a_range_given_before() -> None:
    module = given({"x": ("1..16", None, "64..2048%32")})
    with pytest.raises(gw.FeedError, match=r"axis 0 of input 'x' cannot be 17: N is 1 to 16"):
        shape_inputs(module, {"x": (17, 3, 64)})
    with pytest.raises(gw.FeedError, match=r"cannot be 65: 32\*M_32 is 64 to 2048 in steps of 32"):
        shape_inputs(module, {"x": (1, 3, 65)})


def test_ranges_decide_comparisons() -> None:
    """``where(shape(x)[0] < 32, x, -x)`` is ``x`` if N is at most 16."""
    for text, kept in (("1..16", 0), ("32..64", 0), ("1..64", 1)):
        module = Module()
        b, (x,) = new_main_graph(module, [("x", tensor(F32, N, 3))])
        size = b(Gather(), b(Shape(), x), b.const(np.array(0)))
        b_less = b(Less(), size, b.const(np.array(32)))
        module.main.set_outputs([b(Where(), b_less, x, b(Neg(), x))], ["y"])
        model = gw.compile(module, shapes={"x": (text, 3)})
        assert model.entry.graph.count("Less") == kept, text
        x_array = np.ones((32 if "64" in text else 8, 3), np.float32)
        sign = 1 if text == "1..16" else -1
        assert np.array_equal(model(x_array)[0], sign * x_array)


def detector() -> Module:
    """As in a text detector: 2 * ceil(H/32) rows are added to ceil(H/16) rows."""
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, symbol("H"), 3))])
    coarse, fine = (b(Slice((0,), (END,), (0,), (step,)), x) for step in (32, 16))
    module.main.set_outputs([b(Add(), b(Concat(0), coarse, coarse), fine)], ["y"])
    return module


def test_divisibility_proves_what_sizes_could_break() -> None:
    assert guards(gw.compile(detector()).package)
    model = gw.compile(detector(), shapes={"x": ("32..1024%32", 3)})
    assert not guards(model.package) and not model.entry.general
    assert model(np.ones((96, 3), np.float32))[0].shape == (6, 3)
    (text,) = {str(shape) for spec in model.outputs for shape in (spec.shape or ())[:1]}
    assert text == "2*H_32"
    assert 2 * ceildiv(32 * symbol("h"), 32) == ceildiv(32 * symbol("h"), 16)


@pytest.mark.parametrize("device", ["cpu", "null", "reference"])
@pytest.mark.parametrize("loaded", [False, True])
def test_runs_outside_of_the_ranges_are_rejected_with_axis_size_and_range(
    device: str, loaded: bool, options: Options, tmp_path: Path
) -> None:
    chosen = Options(device=device, cache_dir=options.cache_dir, key_dir=options.key_dir)
    model = gw.compile(
        two_inputs(), shapes={"x": ("B=2..16", 3, "64..2048%32"), "y": ("B", 3, None)}, options=chosen
    )
    if loaded:
        model.save(tmp_path / "model.om")
        model = gw.load(tmp_path / "model.om", options=chosen)

    def run(rows: int, columns: int, other: int | None = None) -> Any:
        x, y = (np.ones((n, 3, columns), np.float32) for n in (rows, rows if other is None else other))
        return model(x, y)[0]

    for rows, columns in ((2, 64), (16, 96), (5, 2048)):
        assert run(rows, columns).shape == (rows, 3, columns)
    for rows, columns, axis, size, span in (
        (1, 64, 0, 1, "2 to 16"),
        (0, 64, 0, 0, "2 to 16"),
        (17, 64, 0, 17, "2 to 16"),
        (2, 32, 2, 32, "64 to 2048 in steps of 32"),
        (2, 65, 2, 65, "64 to 2048 in steps of 32"),
        (2, 2080, 2, 2080, "64 to 2048 in steps of 32"),
    ):
        with pytest.raises(gw.FeedError) as caught:
            run(rows, columns)
        (found,) = caught.value.diagnostics[:1]
        text = found.message
        assert "'x'" in text and f"axis {axis}" in text and span in text and f" {size}" in text, text
    with pytest.raises(gw.FeedError, match=r"axis 0 of (input )?'y'"):
        run(4, 64, 5)
    assert run(2, 64).shape == (2, 3, 64)

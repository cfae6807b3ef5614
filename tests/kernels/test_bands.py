"""Chains of convolutions in bands: the bits of the same chain without them, on any number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

import graphwright as gw
from benchmarks.fusion.chains import Layer, chain
from graphwright.fusion.decision_text import decode_decisions
from graphwright.fusion.decisions import Decision, Kind, Verdict
from graphwright.ir.refusal import Code
from graphwright.kernels.bands import bands, benefit, chains
from graphwright.memory.checker.check import check_plan
from graphwright.runtime.devices.cpu import Cpu
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.hostile_data.guarded import guarded
from tests.isas import RUNNABLE, compiling_on

Array = np.ndarray[Any, Any]
V4 = ISAS["v4"]


def compiled(model: onnx.ModelProto, rows: int, threads: int = 1, isa: str = "") -> gw.Model:
    """Compiles in bands of ``rows`` rows; 0: without bands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "worth_banding", lambda isa, forms: [slice(0, len(forms[0]))] if rows else [])
        patch.setattr(chains, "saved_ns", lambda isa, part: 1)
        patch.setattr(chains, "rows_of_band", lambda isa, stages: rows)
        return gw.compile(model, options=gw.CompileOptions(threads=threads, **({"isa": isa} if isa else {})))


def is_banded(model: gw.Model) -> bool:
    return bands.SYMBOL in model.report().split()


def faults(model: gw.Model, x: Array, threads: int) -> list[str]:
    """The faults that the independent checker finds in the memory plan."""
    assert isinstance(model.executor, Cpu)
    return check_plan(model.executor.task_graph, model.executor.plan([x.shape], threads), threads)


def image(*sizes: int) -> Array:
    return np.random.default_rng(sum(sizes)).standard_normal(sizes).astype(np.float32)


INVERTED = (Layer(96), Layer(0, 3), Layer(16, act=""))
FORMS = {
    "inverted_residual": (INVERTED, 16),
    "stride_2": ((Layer(96), Layer(0, 3, 2), Layer(24, act="")), 16),
    "depthwise_pointwise": ((Layer(0, 3), Layer(64)), 32),
    "hooks": ((Layer(48, act="Silu"), Layer(0, 5, act="HardSwish"), Layer(32, act="Silu")), 16),
    "hook_on_row_major_tiles": ((Layer(48), Layer(0, 3), Layer(20, act="Silu")), 16),
    "direct": ((Layer(32, 3, act="Elu"), Layer(32, 3, 2), Layer(48, 5, dilation=2)), 16),
    "deep": ((Layer(32), Layer(0, 3), Layer(32), Layer(0, 5), Layer(32), Layer(0, 3, 2), Layer(48)), 32),
    "uneven_pads": ((Layer(32), Layer(0, 3, pads=(2, 0)), Layer(32, 3, pads=(0, 3))), 16),
    "channels_beside_blocks": ((Layer(40), Layer(0, 3), Layer(20)), 24),
}


@pytest.mark.parametrize("name", FORMS)
def test_bands_give_the_same_bits(name: str) -> None:
    layers, cin = FORMS[name]
    model, x = chain(layers, cin, (1, 29, 37)), image(1, cin, 29, 37)
    expected = compiled(model, 0)(x)[0]
    for rows, threads in ((1, 1), (3, 2), (4, 3), (64, 1)):
        banded = compiled(model, rows, threads)
        assert is_banded(banded) and faults(banded, x, threads) == []
        np.testing.assert_array_equal(banded(x)[0], expected)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("sizes", [(1, 40, 24), (1, "H", "W")], ids=str)
def test_a_residual_that_the_first_stage_reads_too(sizes: tuple[int | str, ...], isa: str) -> None:
    """The result may not be written over the residual: bands read rows of their neighbors."""
    model, x = chain(INVERTED, 16, sizes, skip=True), image(1, 16, 40, 24)
    expected, banded = compiled(model, 0, isa=isa)(x)[0], compiled(model, 4, 2, isa=isa)
    assert is_banded(banded)
    np.testing.assert_array_equal(banded(x)[0], expected)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("name", FORMS)
def test_bands_access_only_their_arrays(name: str, rows: int) -> None:
    """Unreadable pages are before or after the image and the result; freed memory is filled with NaN."""
    layers, cin = FORMS[name]
    model, x = chain(layers, cin, (1, 29, 37)), image(1, cin, 29, 37)
    expected, banded = compiled(model, 0)(x)[0], compiled(model, rows, 2)
    assert is_banded(banded) and isinstance(banded.executor, Cpu)
    for behind in (True, False):
        arrays = [guarded(each, behind=behind) for each in (x, np.zeros_like(expected))]
        banded.executor.run(arrays[:1], arrays[1:], 2, poison=True)
        np.testing.assert_array_equal(arrays[1], expected)


SIDES = st.integers(29, 70)
LAYERS = st.builds(
    Layer,
    cout=st.sampled_from([0, 0, 16, 24, 40]),
    k=st.sampled_from([1, 1, 3, 5]),
    stride=st.sampled_from([1, 1, 2]),
    dilation=st.sampled_from([1, 1, 2]),
    act=st.sampled_from(["", "Relu", "HardSwish", "Silu"]),
    pads=st.tuples(st.integers(-1, 3), st.integers(-1, 3)),
)


def fits(layers: list[Layer], side: int) -> bool:
    """Whether each window has a place in the padded image of this height or width."""
    for layer in layers:
        half = (layer.k - 1) * layer.dilation // 2
        pads = sum(half if pad < 0 else pad for pad in layer.pads)
        room = side + min(pads, 2 * half) - 2 * half
        if room < 1:
            return False
        side = (room - 1) // layer.stride + 1
    return True


RESIDUALS = st.builds(
    lambda inner, cout, k, dilation, acts: [
        Layer(inner, act=acts[0]), Layer(0, k, dilation=dilation, act=acts[1]), Layer(cout, act=acts[2])
    ],
    inner=st.sampled_from([16, 24, 40]),
    cout=st.sampled_from([16, 32]),
    k=st.sampled_from([3, 5]),
    dilation=st.sampled_from([1, 2]),
    acts=st.lists(st.sampled_from(["", "Relu", "HardSwish", "Silu"]), min_size=3, max_size=3),
)  # fmt: skip
"""Inverted residuals of images with as many channels as the last layer has."""
IMAGES = st.lists(st.tuples(st.integers(1, 2), SIDES, SIDES), min_size=2, max_size=2)


@settings(max_examples=12, deadline=None)
@given(
    layers=st.lists(LAYERS, min_size=2, max_size=5), cin=st.sampled_from([16, 32]), rows=st.integers(1, 9),
    images=IMAGES, threads=st.integers(1, 3), is_single=st.booleans(),
)  # fmt: skip
def test_any_chain_at_any_size(
    layers: list[Layer], cin: int, rows: int, images: list[tuple[int, int, int]], threads: int,
    is_single: bool,
) -> None:  # fmt: skip
    assume(all(fits(layers, side) for _, *sides in images for side in sides))
    check_at_any_size(layers, cin, rows, images, threads, is_single)


@settings(max_examples=8, deadline=None)
@given(
    layers=RESIDUALS, rows=st.integers(1, 9), images=IMAGES, threads=st.integers(1, 3),
    is_single=st.booleans(),
)  # fmt: skip
def test_any_inverted_residual_at_any_size(
    layers: Sequence[Layer], rows: int, images: list[tuple[int, int, int]], threads: int, is_single: bool
) -> None:
    check_at_any_size(layers, layers[-1].cout, rows, images, threads, is_single, skip=True)


def check_at_any_size(
    layers: Sequence[Layer], cin: int, rows: int, images: list[tuple[int, int, int]], threads: int,
    is_single: bool, skip: bool = False,
) -> None:  # fmt: skip
    """Heights and widths are dynamic, and the number of images unless ``is_single``: with several, a hook has
    no other operand.
    """
    model = chain(layers, cin, (1 if is_single else "N", "H", "W"), skip)
    whole, banded = compiled(model, 0), compiled(model, rows, threads)
    for n, h, w in images:
        x = image(1 if is_single else n, cin, h, w)
        np.testing.assert_array_equal(banded(x)[0], whole(x)[0])
        assert faults(banded, x, threads) == []


def test_dynamic_sizes_decide_when_they_are_known() -> None:
    """Bands pay at 160 x 160; at 24 x 24, the stages run one after the other."""
    model = chain(INVERTED, 16, ("N", "H", "W"))
    whole, either = compiled(model, 0), gw.compile(model)
    assert is_banded(either) and not is_banded(whole)
    for x in (image(1, 16, 160, 160), image(2, 16, 24, 24), image(2, 16, 112, 160)):
        np.testing.assert_array_equal(either(x)[0], whole(x)[0])


def test_inner_images_need_memory_only_without_bands() -> None:
    """Bands at 160 x 160 need no memory for an image of 96 channels; stages at 24 x 24 need two such
    images.
    """
    either = gw.compile(chain(INVERTED, 16, ("N", "H", "W")))
    inner = 96 * 160 * 160 * 4
    banded = either.memory({"x": (1, 16, 160, 160)}, threads=1)
    assert all(buffer.bytes < inner for buffer in banded.programs[0].buffers)
    apart = either.memory({"x": (2, 16, 24, 24)}, threads=1)
    assert sum(buffer.bytes == 2 * 96 * 24 * 24 * 4 for buffer in apart.programs[0].buffers) == 2


def test_profiles_count_operations_at_the_tasks_that_compute_them() -> None:
    """The band counts them at 160 x 160, and each stage at 24 x 24."""
    model = gw.compile(chain(INVERTED, 16, ("N", "H", "W")))
    pointwise, depthwise = 2 * 2 * 16 * 96, 2 * 9 * 96
    for side, expected in (
        (160, {bands.SYMBOL: (pointwise + depthwise) * 160 * 160}),
        (24, {"gw_direct_f32": pointwise * 24 * 24, "gw_depthwise_blocked_f32": depthwise * 24 * 24}),
    ):
        with gw.profile() as p:
            model(image(1, 16, side, side))
        assert {row.name: row.operations for row in p.rows() if row.operations} == expected


def test_only_large_images_run_in_bands() -> None:
    small, large = (chain(INVERTED, 16, (1, side, side)) for side in (28, 160))
    assert not is_banded(gw.compile(small))
    assert is_banded(gw.compile(large))
    assert not is_banded(gw.compile(large, options=gw.CompileOptions(fusion_rules="-bands")))
    assert not is_banded(gw.compile(large, options=gw.CompileOptions(opt_level=2)))


def test_a_launch_is_named_after_all_of_its_nodes() -> None:
    model = gw.compile(chain(INVERTED, 16, (1, 160, 160)), options=gw.CompileOptions(threads=1))
    names = [task.name for task in model.trace({"x": image(1, 16, 160, 160)})]
    assert "Conv:c0 + Relu:a0, Conv:c1 + Relu:a1, Conv:c2" in names


def test_rings_take_their_share_of_the_cache() -> None:
    """An inverted residual block at 112 x 112 has two rings of 96 channels in 80 percent of 1 MiB."""
    stages: list[bands.Stage] = []

    def see(isa: Isa, forms: Sequence[Sequence[benefit.Costed]]) -> list[slice]:
        stages.extend(costed.stage for costed in forms[0])
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "worth_banding", see)
        with compiling_on("v4"):
            gw.compile(chain(INVERTED, 16, (1, 112, 112)))
    rows = benefit.rows_of_band(V4, stages)
    assert isinstance(rows, int)
    pixels = 112 * (rows + 2) + 112 * rows
    assert bands.ring_bytes(V4, stages, rows) == 6 * 64 * (pixels + 2 * 5)
    assert 4 * 96 * pixels <= 0.8 * (1 << 20) < 4 * 96 * (pixels + 4 * 112)


def decisions(model: onnx.ModelProto) -> dict[tuple[str, ...], Decision]:
    """About bands, by the layers."""
    with compiling_on("v4"):
        made = decode_decisions(gw.compile(model).entry.decisions)
    found = [each for each in made if each.edit.kind is Kind.BAND]
    return {tuple(name.split(" + ")[0] for name in each.edit.nodes): each for each in found}


def test_each_chain_has_a_decision() -> None:
    """A value that an Add reads too ends a chain; rows of 12 pixels are too short."""
    found = decisions(chain(INVERTED, 16, (1, 160, 160)))
    taken = found["Conv:c0", "Conv:c1", "Conv:c2"]
    assert (taken.verdict, taken.code) == (Verdict.TAKEN, Code.BANDED)
    assert taken.bytes_saved == 2 * 2 * 4 * 96 * 160 * 160
    assert taken.predicted is not None
    assert -0.5 < taken.predicted < -0.03

    small = decisions(chain(INVERTED, 16, (1, 28, 28)))
    assert {nodes: each.code for nodes, each in small.items()} == {
        ("Conv:c0", "Conv:c1"): Code.BAND_COST,
        ("Conv:c1", "Conv:c2"): Code.BAND_COST,
    }
    short = decisions(chain(INVERTED, 16, (1, 12, 12)))
    assert {each.code for each in short.values()} == {Code.BAND_SHORT_ROWS}

    model = chain(INVERTED, 16, (1, 160, 160))
    model.graph.output.append(helper.make_tensor_value_info("a0", onnx.TensorProto.FLOAT, None))
    found = decisions(model)
    assert found["Conv:c0", "Conv:c1"].code is Code.BAND_READ
    assert found["Conv:c1", "Conv:c2"].verdict is Verdict.TAKEN

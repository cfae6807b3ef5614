"""Models of many sizes: what fits runs on one plan each, what cannot is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

import graphwright as gw
from benchmarks.models import page
from benchmarks.shapes import drawn
from graphwright.config import Options
from tests.models.support import answers, assert_close, file_of, marked, session


@pytest.mark.models
def test_det_rejects_a_height_at_which_its_maps_cannot_be_added() -> None:
    model = gw.compile(file_of("ppocr_det"))
    image = np.zeros((1, 3, 330, 640), np.float32)
    with pytest.raises(gw.FeedError) as caught:
        model.run({"x": image})
    text = str(caught.value)
    assert "p2o.Add" in text, "the node"
    assert "22" in text and "21" in text, "both sizes: 2 * ceil(330 / 32) and ceil(330 / 16) rows"
    assert "differ" in text


@pytest.mark.models
@pytest.mark.parametrize("height", [32, 33, 64, 96, 320])
def test_det_runs_at_every_height_at_which_they_can(height: int) -> None:
    path = file_of("ppocr_det")
    feeds = {"x": page(np.random.default_rng(0), (1, 3, height, 64))}
    fits = 2 * -(-height // 32) == -(-height // 16)
    if fits:
        assert_close(gw.compile(path).run(feeds), answers(session(path), feeds), path, feeds)
        return
    with pytest.raises(gw.FeedError):
        gw.compile(path).run(feeds)


@pytest.mark.models
@pytest.mark.parametrize("width", [8, 40, 161, 333, 1000])
def test_rec_runs_at_any_width(width: int) -> None:
    path = file_of("ppocr_rec")
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 3, 48, width), np.float32)}
    assert_close(gw.compile(path).run(feeds), answers(session(path), feeds), path, feeds)


@pytest.mark.parametrize("name", [marked(n) for n in ("ppocr_det", "ppocr_rec", "ppocr_cls", "silero_vad")])
def test_one_program_is_right_at_many_random_sizes(name: str) -> None:
    path = file_of(name)
    model, peer = gw.compile(path, options=Options.from_environment(plan_cache=3)), session(path)
    for feeds in drawn(name, 40, large=False):
        assert_close(model.run(feeds), answers(peer, feeds), path, feeds)
    stats = model.stats()
    assert stats["host_calls"] == 0 and stats["plans"] == 3 and stats["plan_evictions"] >= 10


@pytest.mark.models
def test_det_with_ranges_proves_that_its_maps_fit() -> None:
    path = file_of("ppocr_det")
    model = gw.compile(path, shapes={"x": ("N=1..4", 3, "H=32..1024%32", "W=32..1024%32")})
    assert model.entry.constraints == ()
    for feeds in drawn("ppocr_det", 10, large=False):
        assert_close(model.run(feeds), answers(session(path), feeds), path, feeds)
    with pytest.raises(gw.FeedError, match="axis 2 of 'x' must be 32 to 1024 in steps of 32, but is 330"):
        model.run({"x": np.zeros((1, 3, 330, 640), np.float32)})


SMALL = [(0, 3, 64, 64), (1, 3, 1, 1), (1, 3, 16, 16), (2, 3, 32, 32), (3, 3, 33, 47), (1, 3, 31, 96)]


@pytest.mark.parametrize("name", [marked(name) for name in ("ppocr_det", "ppocr_rec", "ppocr_cls")])
def test_small_and_odd_images_run_wherever_onnx_runtime_runs_them(name: str) -> None:
    path = file_of(name)
    model, peer = gw.compile(path), session(path)
    rng = np.random.default_rng(0)
    for batch, channels, height, width in SMALL:
        shape = (batch, channels, 48 if name == "ppocr_rec" else height, width)
        feeds = {"x": rng.standard_normal(shape, np.float32)}
        try:
            expected = answers(peer, feeds)
        except Exception:
            continue  # such as rows of maps that cannot be added
        assert_close(model.run(feeds), expected, path, feeds)


def test_cls_names_the_axis_that_does_not_fit() -> None:
    model = gw.compile(file_of("ppocr_cls"))
    for shape in ((1, 4, 48, 192), (3, 48, 192), (1, 3, 48, 192, 1)):
        with pytest.raises(gw.FeedError, match="x"):
            model.run({"x": np.zeros(shape, np.float32)})
    with pytest.raises(gw.FeedError, match="float64"):
        model.run({"x": np.zeros((1, 3, 48, 192))})

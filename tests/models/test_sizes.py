"""Models of many sizes: what fits runs on one plan each, what cannot is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

import graphwright as gw
from benchmarks.models import page
from tests.models.support import answers, assert_close, file_of, session


@pytest.mark.models
def test_det_refuses_a_height_at_which_its_maps_cannot_be_added() -> None:
    model = gw.compile(file_of("ppocr_det"))
    image = np.zeros((1, 3, 330, 640), np.float32)
    with pytest.raises(gw.FeedError) as caught:
        model.run({"x": image})
    text = str(caught.value)
    assert "p2o.Add" in text, "the node"
    assert "22" in text and "21" in text, "both sizes: 2 * ceil(330 / 32) and ceil(330 / 16) rows"
    assert "==" in text or "equal" in text, "the constraint"


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


def test_cls_names_the_axis_that_does_not_fit() -> None:
    model = gw.compile(file_of("ppocr_cls"))
    for shape in ((1, 4, 48, 192), (3, 48, 192), (1, 3, 48, 192, 1)):
        with pytest.raises(gw.FeedError, match="x"):
            model.run({"x": np.zeros(shape, np.float32)})
    with pytest.raises(gw.FeedError, match="float64"):
        model.run({"x": np.zeros((1, 3, 48, 192))})

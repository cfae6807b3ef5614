"""Whole models with gears, compared with ONNX Runtime and with each shape compiled separately."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from benchmarks.models import page
from tests.models.support import answers, assert_close, file_of, session

Array = np.ndarray[Any, Any]
PAGE = Path(__file__).parents[2] / "docs" / "gears.md"


def normal(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.models
def test_det_at_several_image_sizes(tmp_path: Path) -> None:
    """Maps of the text detector have other sizes in each gear; all gears share one set of weights."""
    path, sizes = file_of("ppocr_det"), [(224, 224), (320, 320), (64, 96)]
    model = gw.compile(path, gears=gw.Gears(batch=(1,), image=sizes))
    model.save(tmp_path / "det.om")
    loaded = gw.load(tmp_path / "det.om")
    peer = session(path)
    for height, width in sizes:
        feeds = {"x": page(np.random.default_rng(0), (1, 3, height, width))}
        got = loaded.run(feeds)
        alone = gw.compile(path, shapes={"x": (1, 3, height, width)})
        assert [a.tobytes() for a in got.values()] == [a.tobytes() for a in alone.run(feeds).values()]
        assert_close(got, answers(peer, feeds), path, feeds)
    with pytest.raises(gw.FeedError, match="x:1,3,224,224; x:1,3,320,320; x:1,3,64,96"):
        loaded.run({"x": np.zeros((1, 3, 100, 100), np.float32)})
    alone = gw.compile(path, shapes={"x": (1, 3, 320, 320)})
    ratio = loaded.package.weights.data.nbytes / alone.package.weights.data.nbytes
    assert ratio < 1.5, "weights are stored once, but for those that kernels of other sizes pack otherwise"


@pytest.mark.models
def test_a_height_that_det_cannot_have_is_named() -> None:
    with pytest.raises(gw.ModelError) as caught:
        gw.compile(file_of("ppocr_det"), gears=gw.Gears(batch=(1,), image=[(320, 320), (330, 640)]))
    text = str(caught.value)
    assert "gear 1 (x:1,?,330,640)" in text and "p2o.Add" in text and "gear 0" not in text


def test_cls_pads_batches() -> None:
    """The text direction classifier runs a batch between two gears on the larger one."""
    path = file_of("ppocr_cls")
    gears = gw.Gears(batch=(1, 4), between="pad")
    model = gw.compile(path, shapes={"x": [None, 3, 48, 192]}, gears=gears)
    peer = session(path)
    for batch in (1, 2, 3, 4):
        feeds = {"x": normal(batch, 3, 48, 192)}
        assert_close(model.run(feeds), answers(peer, feeds), path, feeds)


def test_silero_takes_gears_of_three_inputs() -> None:
    """The speech detector has gears for samples and state, by zip; the rate is constant."""
    path = file_of("silero_vad")
    gears = {"input": [(1, 512), (3, 512)], "state": [(2, 1, 128), (2, 3, 128)]}
    model = gw.compile(path, constants={"sr": 16000}, gears=gears)
    peer = session(path)
    for batch in (1, 3, 1):
        feeds = {"input": 0.1 * normal(batch, 512), "state": 0.1 * normal(2, batch, 128)}
        want = answers(peer, {**feeds, "sr": np.array(16000)})
        assert_close(model.run(feeds), want, path, {**feeds, "sr": np.array(16000)})
    with pytest.raises(gw.FeedError, match="no gear matches input:2,512 state:2,2,128"):
        model.run({"input": normal(2, 512), "state": normal(2, 2, 128)})


@pytest.mark.models
def test_rec_has_batches_and_widths() -> None:
    path = file_of("ppocr_rec")
    gears = gw.Gears(batch=(1, 2), image=[(48, 160), (48, 320)], between="dynamic")
    model = gw.compile(path, gears=gears)
    peer = session(path)
    for batch, width in ((1, 160), (2, 320), (1, 100)):
        feeds = {"x": normal(batch, 3, 48, width)}
        assert_close(model.run(feeds), answers(peer, feeds), path, feeds)


@pytest.mark.models
def test_the_snippet_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(file_of("ppocr_rec"), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(snippet, PAGE.name, "exec"), names)
    assert [names[result].shape for result in ("one", "two", "three")] == [
        (1, 20, 6625),
        (2, 20, 6625),
        (3, 20, 6625),
    ]

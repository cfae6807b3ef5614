"""The demo reads a drawn text; its parts are tested one by one."""

from __future__ import annotations

import subprocess
import sys
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import graphwright as gw
from benchmarks.demo import detect, picture, recognize
from benchmarks.demo.__main__ import lines_of, read, texts_of
from benchmarks.demo.detect import Box
from benchmarks.models import MODELS

PAGES = {
    "drawn by default": (picture.LINES, 40),
    "small": (("Each value has one producer", "every buffer has its place"), 20),
    "large": (("WIDE", "narrow 7"), 90),
}


LONGER = ("three words here", "and quite a few more words than that")


@pytest.fixture(scope="module")
def models() -> tuple[gw.Model, gw.Model]:
    return gw.compile(MODELS["ppocr_det"].path()), gw.compile(MODELS["ppocr_rec"].path())


@pytest.mark.parametrize("page", PAGES)
def test_words_are_read_right(page: str, models: tuple[gw.Model, gw.Model]) -> None:
    lines, size = PAGES[page]
    assert read(picture.draw(lines, size), *models) == list(lines)


def test_lines_of_all_widths_go_through_one_model_without_python_inside(
    models: tuple[gw.Model, gw.Model],
) -> None:
    detector, recognizer = models
    lines = lines_of(picture.draw(["go", *LONGER]), detector)
    widths = {recognize.feed(line).shape[3] for line in lines}
    assert len(widths) == 3
    assert texts_of(lines, recognizer) == ["go", *LONGER]
    assert detector.stats()["host_calls"] == recognizer.stats()["host_calls"] == 0


def test_a_blank_picture_has_no_text(models: tuple[gw.Model, gw.Model]) -> None:
    assert read(np.full((100, 200, 3), 255, np.uint8), *models) == []


@pytest.mark.long
def test_the_command_reads_and_measures() -> None:
    command = [sys.executable, "-m", "benchmarks.demo", "--rounds", "1"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "".join(f"    {line}\n" for line in picture.LINES) in output
    assert "ppocr_det [1, 3, 288, 512]" in output
    assert output.count(" x the time and ") == 2


def test_a_missing_picture_is_an_error_in_one_line() -> None:
    command = [sys.executable, "-m", "benchmarks.demo", "no-such.png"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "No such file" in done.stderr
    assert "Traceback" not in done.stderr


@settings(deadline=None, max_examples=200)
@given(hnp.arrays(np.bool_, st.tuples(st.integers(1, 12), st.integers(1, 12))))
def test_components_are_those_of_a_flood(mask: np.ndarray) -> None:
    key = lambda box: (box.top, box.left, box.bottom, box.right)  # noqa: E731
    assert sorted(detect.components(mask), key=key) == sorted(flooded(mask), key=key)


def flooded(mask: np.ndarray) -> list[Box]:
    left = {(int(r), int(c)) for r, c in zip(*np.nonzero(mask), strict=True)}
    boxes = []
    while left:
        reached = [left.pop()]
        waiting = deque(reached)
        while waiting:
            row, column = waiting.popleft()
            near = {(row + r, column + c) for r in (-1, 0, 1) for c in (-1, 0, 1)} & left
            left -= near
            waiting += near
            reached += near
        rows, columns = zip(*reached, strict=True)
        boxes.append(Box(min(rows), min(columns), max(rows) + 1, max(columns) + 1))
    return boxes


def test_boxes_are_sorted_in_reading_order() -> None:
    a, b, c, d = Box(2, 0, 12, 9), Box(0, 50, 10, 90), Box(30, 5, 40, 20), Box(28, 70, 38, 99)
    assert detect.in_reading_order([d, b, c, a]) == [a, b, c, d]


def test_boxes_are_grown_and_scaled_to_the_picture() -> None:
    scores = np.zeros((1, 1, 64, 64), np.float32)
    scores[0, 0, 20:30, 10:50] = 0.9
    scores[0, 0, 50:52, 10:50] = 0.9  # two rows are noise
    margin = 10 * 40 * 1.5 / 100
    top, left, bottom, right = 20 - margin, 10 - margin, 30 + margin, 50 + margin
    expected = Box(round(top * 2), round(left * 3), round(bottom * 2), round(right * 3))
    assert detect.boxes(scores, 128, 192) == [expected]


def test_the_detectors_input_is_normalized_bgr() -> None:
    red = np.zeros((40, 100, 3), np.uint8)
    red[..., 0] = 255
    made = detect.feed(red)
    assert made.shape == (1, 3, 32, 96)
    blue, green, red_again = made[0, :, 0, 0]
    assert blue == pytest.approx(-0.485 / 0.229)
    assert green == pytest.approx(-0.456 / 0.224)
    assert red_again == pytest.approx((1 - 0.406) / 0.225)


def test_the_recognizers_input_keeps_the_aspect() -> None:
    made = recognize.feed(np.full((24, 50, 3), 255, np.uint8))
    assert made.shape == (1, 3, 48, 104)
    assert (made[..., :100] == 1).all()
    assert (made[..., 100:] == 0).all()


def test_ctc_merges_repeats_and_drops_blanks() -> None:
    classes = recognize.alphabet("a\nb\n")
    assert classes == ["", "a", "b", " "]
    steps = [1, 1, 0, 1, 2, 2, 3, 0, 0, 2]
    assert recognize.text(np.eye(4, dtype=np.float32)[steps][None], classes) == "aab b"

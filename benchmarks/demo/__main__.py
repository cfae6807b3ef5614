"""Compiles PP-OCRv4, saves, loads, reads the text in a picture, and compares the speed with ONNX Runtime."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import graphwright as gw
from benchmarks.demo import detect, picture, recognize
from benchmarks.models import MODELS
from graphwright.tools.measuring.bench import measure, ratio
from graphwright.tools.measuring.engines import OURS

Array = np.ndarray[Any, Any]
PEER = "onnxruntime"
FOLDER = Path("build") / "demo"


def package(name: str) -> Path:
    """The file for the compiled model ``name`` of the zoo."""
    return FOLDER / f"{name}.om"


def compiled(name: str) -> gw.Model:
    """The model ``name`` of the zoo: compiled, saved as a file, and loaded from it."""
    target = package(name)
    begin = time.perf_counter()
    gw.compile(MODELS[name].path()).save(target)
    seconds, size = time.perf_counter() - begin, target.stat().st_size / 2**20
    print(f"{target}: compiled in {seconds:.1f} s, {size:.1f} MiB")
    return gw.load(target)


def lines_of(image: picture.Picture, detector: gw.Model) -> list[picture.Picture]:
    """Cuts out the lines of text in ``image``."""
    (scores,) = detector(detect.feed(image))
    return [box.cut(image) for box in detect.boxes(scores, *image.shape[:2])]


def texts_of(lines: list[picture.Picture], recognizer: gw.Model) -> list[str]:
    """The text of each line; one compiled model reads lines of any width."""
    classes = recognize.alphabet(recognizer.metadata["character"])
    return [recognize.text(recognizer(recognize.feed(line))[0], classes) for line in lines]


def read(image: picture.Picture, detector: gw.Model, recognizer: gw.Model) -> list[str]:
    """The text in ``image``, line by line."""
    return texts_of(lines_of(image, detector), recognizer)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo", description=__doc__)
    parser.add_argument("picture", nargs="?", type=Path, help="default: one that is drawn now")
    parser.add_argument("--rounds", type=int, default=15, help="of measuring; 0 only reads")
    chosen = parser.parse_args()
    try:
        image = picture.read(chosen.picture) if chosen.picture else picture.draw()
    except OSError as error:
        parser.error(str(error))
    FOLDER.mkdir(parents=True, exist_ok=True)
    detector, recognizer = compiled("ppocr_det"), compiled("ppocr_rec")
    lines = lines_of(image, detector)
    print(f"\nThe picture, {image.shape[1]} x {image.shape[0]} pixels, says:")
    print("".join(f"    {text}\n" for text in texts_of(lines, recognizer)) or "    (no text found)\n")
    if chosen.rounds:
        feeds = {"ppocr_det": detect.feed(image)}
        if lines:
            feeds["ppocr_rec"] = recognize.feed(max(lines, key=lambda line: line.shape[1] / line.shape[0]))
        show(feeds, chosen.rounds)


def show(feeds: dict[str, Array], rounds: int) -> None:
    """Measures both engines on one thread, in turns, each in its own process."""
    print("Measured on one thread, each engine in a process of its own, interpreter included:")
    for name, array in feeds.items():
        source = MODELS[name].path()
        files = {OURS: (package(name), {"x": array}), PEER: (source, {"x": array})}
        results = measure(files, 1, rounds)
        print(f"    {name} {list(array.shape)}")
        for engine, measured in results.items():
            median, memory = measured.summary()["median_ns"] / 1e6, measured.peak_bytes / 2**20
            load = measured.load_s * 1e3
            print(
                f"        {engine:12} {median:7.2f} ms a run {load:7.0f} ms to load {memory:7.0f} MiB at most"
            )
        ours, theirs = results[OURS], results[PEER]
        times, memory = ratio(theirs, ours).median, theirs.peak_bytes / ours.peak_bytes
        print(f"        {PEER} takes {times:.2f} x the time and {memory:.2f} x the memory of {OURS}")


if __name__ == "__main__":
    main()

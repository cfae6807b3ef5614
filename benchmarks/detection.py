"""Compares ops with data-dependent sizes with ONNX Runtime: box suppression, masks, sizes that are inputs.

    python -m benchmarks.detection [--threads 1] [--only WORD ...]

``nms CLASSESxBOXES``: NonMaxSuppression of random boxes; ``detections`` has few scores above the threshold,
``dense`` all, ``every`` keeps as many boxes as stay. ``head``: the end of a YOLO detector: boxes decoded from
a map of 84 channels, suppressed, and the chosen ones gathered. ``nonzero`` and ``compress``: a mask of a
million elements of which 1 % or half are true. ``unique``: integers up to their number. ``resize``: an image
to a size that is an input, or to one for each axis. Both engines run in turn, in the same process, the least
of many runs: CPU time of the thread with one thread, else wall time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import graphwright as gw
from graphwright.tools.measuring.engines import start

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]
Case = tuple[Sequence[onnx.NodeProto], Feeds, Feeds, Sequence[str]]
"""Nodes, weights, inputs, outputs."""
SECONDS = 1.5
RANDOM = np.random.default_rng(0)
node = helper.make_node


def boxes(count: int) -> Array:
    corner = RANDOM.random((1, count, 2), np.float32) * 640
    size = RANDOM.random((1, count, 2), np.float32) * 100 + 5
    return np.concatenate([corner - size / 2, corner + size / 2], 2)


def limits(most: int, overlap: float, least: float) -> dict[str, Array]:
    return {
        "most": np.array([most]),
        "overlap": np.array([overlap], np.float32),
        "least": np.array([least], np.float32),
    }


def suppression(classes: int, count: int, most: int, overlap: float, least: float, power: int) -> Case:
    """Scores are random numbers to the ``power``."""
    scores = RANDOM.random((1, classes, count), np.float32) ** power
    nodes = [node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["chosen"])]
    return nodes, limits(most, overlap, least), {"boxes": boxes(count), "scores": scores}, ["chosen"]


def head(classes: int, count: int) -> Case:
    """A map [1, 4 + classes, count] of centers, sizes and logits."""
    corner = boxes(count)[0].T
    made = np.concatenate([corner[:2], corner[2:] - corner[:2], RANDOM.normal(-6, 2, (classes, count))])
    nodes = [
        node("Split", ["map", "parts"], ["middles", "sizes", "logits"], axis=1),
        node("Mul", ["sizes", "half"], ["halves"]),
        node("Sub", ["middles", "halves"], ["low"]),
        node("Add", ["middles", "halves"], ["high"]),
        node("Concat", ["low", "high"], ["corners"], axis=1),
        node("Transpose", ["corners"], ["boxes"], perm=[0, 2, 1]),
        node("Sigmoid", ["logits"], ["scores"]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["chosen"]),
        node("Gather", ["chosen", "box_columns"], ["places"], axis=1),
        node("GatherND", ["boxes", "places"], ["found"]),
        node("GatherND", ["scores", "chosen"], ["sure"]),
    ]
    weights = {
        **limits(100, 0.45, 0.25),
        "parts": np.array([2, 2, classes]),
        "half": np.array(0.5, np.float32),
        "box_columns": np.array([0, 2]),
    }
    return nodes, weights, {"map": made[None].astype(np.float32)}, ["chosen", "found", "sure"]


def places(share: float) -> Case:
    return [node("NonZero", ["mask"], ["y"])], {}, {"mask": RANDOM.random((1000, 1000)) < share}, ["y"]


def kept(share: float) -> Case:
    nodes = [node("Compress", ["x", "mask"], ["y"], axis=0)]
    feeds = {"x": RANDOM.random((100_000, 16), np.float32), "mask": RANDOM.random(100_000) < share}
    return nodes, {}, feeds, ["y"]


def distinct(count: int) -> Case:
    nodes = [node("Unique", ["x"], ["y", "first", "inverse", "counts"])]
    outputs = ["y", "first", "inverse", "counts"]
    return nodes, {}, {"x": RANDOM.integers(0, count, count)}, outputs


def resized(mode: str, size: Sequence[int]) -> Case:
    """A Resize of the last axes to ``size``, as exporters write it, or of all axes."""
    nodes = [
        node("Shape", ["x"], ["own"], end=4 - len(size)),
        node("Concat", ["own", "size"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode),
    ]
    return nodes, {}, {"x": RANDOM.random((1, 3, 480, 640), np.float32), "size": np.array(size)}, ["y"]


CASES: dict[str, Callable[[], Case]] = {
    "nms 80x8400 detections": lambda: suppression(80, 8400, 100, 0.45, 0.25, 60),
    "nms 80x8400 dense": lambda: suppression(80, 8400, 100, 0.45, 0.0, 1),
    "nms 1x25200 detections": lambda: suppression(1, 25200, 300, 0.45, 0.25, 8),
    "nms 1x25200 every": lambda: suppression(1, 25200, 25200, 0.45, 0.001, 1),
    "nms 90x1917 detections": lambda: suppression(90, 1917, 100, 0.6, 0.3, 8),
    "head 80x8400": lambda: head(80, 8400),
    "nonzero 1 %": lambda: places(0.01),
    "nonzero half": lambda: places(0.5),
    "compress 1 %": lambda: kept(0.01),
    "compress half": lambda: kept(0.5),
    "unique 1000": lambda: distinct(1000),
    "unique 100000": lambda: distinct(100_000),
    "resize linear": lambda: resized("linear", [640, 640]),
    "resize cubic": lambda: resized("cubic", [640, 640]),
    "resize linear, all axes": lambda: resized("linear", [1, 3, 640, 640]),
    "resize cubic, all axes": lambda: resized("cubic", [1, 3, 640, 640]),
}


def model_of(case: Case) -> onnx.ModelProto:
    nodes, weights, feeds, outputs = case
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "detection", inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def measure(case: Case, threads: int) -> tuple[float, float, int, int]:
    """Returns microseconds of graphwright and of ONNX Runtime, rows of the first result, and nodes run in
    Python.
    """
    proto, feeds = model_of(case), case[2]
    clock = time.CLOCK_THREAD_CPUTIME_ID if threads == 1 else time.CLOCK_MONOTONIC
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(proto.SerializeToString())
        ours = gw.compile(proto, options=gw.CompileOptions(threads=threads))
        engines = [ours.run, start("onnxruntime", path, threads)]
        best = [float("inf")] * len(engines)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for k, run in enumerate(engines):
                begin = time.clock_gettime_ns(clock)
                run(feeds)
                best[k] = min(best[k], (time.clock_gettime_ns(clock) - begin) / 1e3)
        rows = next(iter(ours.run(feeds).values())).shape
    return best[0], best[1], max(rows), ours.stats()["host_calls"]


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", metavar="WORD", nargs="+", default=[""])
    given = parser.parse_args()
    print(f"{'case':26}{'longest':>9}{'Python':>8}{'graphwright':>14}{'onnxruntime':>14}{'times':>8}")
    for name, case in CASES.items():
        if any(word in name for word in given.only):
            ours, theirs, rows, hosts = measure(case(), given.threads)
            print(f"{name:26}{rows:9}{hosts:8}{ours:11.1f} us{theirs:11.1f} us{theirs / ours:8.2f}")


if __name__ == "__main__":
    main()

"""Ops that move elements: transposes, slices, joins, gathers and scatters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.op_cases.case import NONE, Case, Operand, Step, c, given, one, w, x

_PICTURE: Final[Mapping[str, Any]] = {"dtype": "u1", "low": 0, "high": 256}


def _transpose(name: str, operand: Operand, *perm: int) -> Case:
    return one(f"transpose {name}", "Transpose", operand, perm=list(perm))


def _slice(
    name: str, operand: Operand, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int],
    steps: Sequence[int],
) -> Case:  # fmt: skip
    return one(f"slice {name}", "Slice", operand, *map(c, (starts, ends, axes, steps)))


def _pad(name: str, operand: Operand, pads: Sequence[int], **attributes: Any) -> Case:
    return one(f"pad {name}", "Pad", operand, c(pads), **attributes)


def _flip(name: str, operand: Operand, axis: int) -> Case:
    return _slice(f"flip {name}", operand, [-1], [np.iinfo(np.int64).min], [axis], [-1])


def _focus() -> Case:
    """The slices and the concatenation that YOLOv5 begins with."""
    ends, axes, steps = "e", "a", "t"
    corners = {"s00": [0, 0], "s10": [1, 0], "s01": [0, 1], "s11": [1, 1]}
    nodes: list[Step] = [("Slice", f"x {s} {ends} {axes} {steps}", f"p{s}", {}) for s in corners]
    nodes.append(("Concat", " ".join(f"p{s}" for s in corners), "y", {"axis": 1}))
    constants = {name: c(values) for name, values in corners.items()}
    constants |= {ends: c([640, 640]), axes: c([2, 3]), steps: c([2, 2])}
    return Case("slice focus", nodes, {"x": x(1, 3, 640, 640), **constants})


CASES = (
    _transpose("768x768", x(768, 768), 1, 0),
    _transpose("2048x2048", x(2048, 2048), 1, 0),
    _transpose("to channels last", x(1, 64, 56, 56), 0, 2, 3, 1),
    _transpose("to channels first", x(1, 56, 56, 64), 0, 3, 1, 2),
    _transpose("picture f32 to CHW", x(1, 480, 640, 3), 0, 3, 1, 2),
    _transpose("picture f32 to HWC", x(1, 3, 480, 640), 0, 2, 3, 1),
    _transpose("picture u8 to CHW", x(1, 480, 640, 3, **_PICTURE), 0, 3, 1, 2),
    _transpose("picture u8 to HWC", x(1, 3, 480, 640, **_PICTURE), 0, 2, 3, 1),
    _transpose("picture with alpha", x(1, 480, 640, 4), 0, 3, 1, 2),
    _transpose("split heads", x(1, 128, 12, 64), 0, 2, 1, 3),
    _transpose("keys", x(1, 128, 12, 64), 0, 2, 3, 1),
    _transpose("windows", x(1, 8, 7, 8, 7, 96), 0, 1, 3, 2, 4, 5),
    _transpose("channel shuffle", x(1, 2, 116, 28, 28), 0, 2, 1, 3, 4),
    _transpose("inner 2", x(100_000, 2), 1, 0),
    _transpose("f16", x(512, 512, dtype="f2"), 1, 0),
    _transpose("i64", x(512, 512, dtype="i8", low=0, high=9), 1, 0),
    _transpose("video", x(1, 8, 3, 112, 112), 0, 2, 1, 3, 4),
    _slice("rows", x(1024, 768), [100], [900], [0], [1]),
    _slice("columns", x(1024, 768), [64], [704], [1], [1]),
    _slice("every second column", x(1024, 768), [0], [768], [1], [2]),
    _slice("every second row", x(1024, 768), [0], [1024], [0], [2]),
    _slice("crop", x(1, 64, 56, 56), [4, 4], [52, 52], [2, 3], [1, 1]),
    _slice("last token", x(8, 128, 768), [-1], [1 << 60], [1], [1]),
    _slice("first of pairs", x(1, 32, 128, 64, 2), [0], [1], [4], [1]),
    _focus(),
    _flip("columns", x(1, 3, 480, 640), 3),
    _flip("rows", x(1, 3, 480, 640), 2),
    _flip("channels of a picture", x(1, 480, 640, 3), 3),
    _flip("time", x(1, 400, 256), 1),
    _flip("u8", x(480, 1920, **_PICTURE), 1),
    one("concat channels", "Concat", x(1, 64, 56, 56), x(1, 128, 56, 56), axis=1),
    one("concat last", "Concat", x(1024, 64), x(1024, 128), axis=1),
    one("concat short", "Concat", x(8400, 4), x(8400, 80), axis=1),
    one("concat rows", "Concat", x(1, 511, 768), x(1, 1, 768), axis=1),
    one("concat many", "Concat", *(x(1, 32, 28, 28) for _ in range(8)), axis=1),
    one("split channels", "Split", x(1, 128, 56, 56), outputs="y z", axis=1, num_outputs=2),
    one("split last", "Split", x(128, 2304), outputs="q k v", axis=1, num_outputs=3),
    one("split uneven", "Split", x(8400, 85), c([4, 1, 80]), outputs="p q r", axis=1),
    _pad("zeros", x(1, 64, 56, 56), [0, 0, 1, 1, 0, 0, 1, 1]),
    _pad("reflect", x(1, 64, 56, 56), [0, 0, 3, 3, 0, 0, 3, 3], mode="reflect"),
    _pad("edge", x(1, 64, 56, 56), [0, 0, 2, 2, 0, 0, 2, 2], mode="edge"),
    _pad("letterbox", x(1, 3, 480, 640), [0, 0, 80, 0, 0, 0, 80, 0]),
    _pad("channels", x(1, 56, 56, 62), [0, 0, 0, 0, 0, 0, 0, 2]),
    one("expand rows", "Expand", x(1, 768), c([512, 768])),
    one("expand columns", "Expand", x(512, 1), c([512, 768])),
    one("expand heads", "Expand", x(1, 8, 1, 256, 64), c([1, 8, 4, 256, 64])),
    one("expand scalar", "Expand", x(1), c([512, 768])),
    one("expand mask", "Expand", x(1, 1, 1, 128, dtype="?", low=0, high=2), c([1, 12, 128, 128])),
    one("tile rows", "Tile", x(64, 768), c([8, 1])),
    one("tile columns", "Tile", x(512, 96), c([1, 8])),
    one("tile both", "Tile", x(1, 32, 28, 28), c([1, 1, 2, 2])),
    one("gather rows", "Gather", x(8192, 256), x(1024, dtype="i8", low=0, high=8192)),
    one("gather embedding", "Gather", w(30522, 768), x(1, 128, dtype="i8", low=0, high=30522)),
    one("gather columns", "Gather", x(1024, 768), x(128, dtype="i8", low=0, high=768), axis=1),
    one("gather last axis", "Gather", x(64, 8400), x(300, dtype="i8", low=0, high=8400), axis=1),
    one("gather one row", "Gather", x(8, 128, 768), c(0), axis=1),
    one("gather elements", "GatherElements", x(512, 768), x(512, 768, dtype="i8", low=0, high=768), axis=1),
    one("gather elements rows", "GatherElements", x(512, 768), x(512, 768, dtype="i8", low=0, high=512),
        axis=0),
    one("gather elements top", "GatherElements", x(1, 8400, 80), x(1, 300, 80, dtype="i8", low=0, high=8400),
        axis=1),
    one("gather nd points", "GatherND", x(64, 64, 256), x(1000, 2, dtype="i8", low=0, high=64)),
    one("gather nd elements", "GatherND", x(512, 512), x(20000, 2, dtype="i8", low=0, high=512)),
    one("scatter elements", "ScatterElements", x(512, 768), given(np.argsort(
        np.random.default_rng(0).random((512, 768)), axis=1)), x(512, 768), axis=1),
    one("scatter elements add", "ScatterElements", x(512, 768), x(256, 768, dtype="i8", low=0, high=512),
        x(256, 768), axis=0, reduction="add"),
    one("scatter nd rows", "ScatterND", x(4096, 256), given(np.arange(0, 4096, 4)[:, None]), x(1024, 256)),
    one("scatter nd add", "ScatterND", x(64, 64, 64), x(2000, 2, dtype="i8", low=0, high=64), x(2000, 64),
        reduction="add"),
    one("kv cache", "Concat", x(1, 8, 1023, 64), x(1, 8, 1, 64), axis=2),
    one("one hot", "OneHot", x(1024, dtype="i8", low=0, high=1000), c([1000]), c([0, 1], "f4")),
    one("range to 4096", "Range", c(0), given(4096), c(1)),
    one("trilu", "Trilu", x(512, 512), upper=1),
    one("eye", "EyeLike", x(512, 512)),
    one("reverse sequence", "ReverseSequence", x(100, 16, 128), x(16, dtype="i8", low=1, high=100),
        batch_axis=1, time_axis=0),
    one("reshape", "Reshape", x(1, 64, 56, 56), c([1, 64, 3136])),
    one("flatten", "Flatten", x(8, 512, 7, 7)),
    one("compress", "Compress", x(4096, 64), x(4096, dtype="?", low=0, high=2), axis=0),
    one("non zero", "NonZero", x(512, 512, dtype="?", low=0, high=2)),
    one("unique", "Unique", x(20000, dtype="i8", low=0, high=500), outputs="y"),
    one("roll", "Concat", x(1, 24, 56, 96), x(1, 32, 56, 96), axis=1),
    one("pad 1-D", "Pad", x(1, 80, 3000), c([0, 0, 8, 0, 0, 8]), NONE),
    Case("rotate half", [("Split", "x", "p q", {"axis": 3, "num_outputs": 2}), ("Neg", "q", "n", {}),
         ("Concat", "n p", "y", {"axis": 3})], {"x": x(1, 32, 128, 128)}),
    Case("roll windows", [("Slice", "x s e a", "p", {}), ("Slice", "x z s a", "q", {}),
         ("Concat", "p q", "y", {"axis": 1})],
         {"x": x(1, 56, 56, 96), "s": c([3]), "e": c([56]), "z": c([0]), "a": c([1])}),
)  # fmt: skip

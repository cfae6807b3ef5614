"""Pooling, resizing, and other ops on images."""

from __future__ import annotations

from typing import Any

from benchmarks.op_cases.case import NONE, Case, c, one, w, x


def _pool(name: str, op: str, image: tuple[int, ...], size: int, stride: int, **more: Any) -> Case:
    spatial = len(image) - 2
    attributes = {"kernel_shape": [size] * spatial, "strides": [stride] * spatial} | more
    return one(name, op, x(*image), **attributes)


def _resize(name: str, image: tuple[int, ...], *scales: float, **attributes: Any) -> Case:
    return one(f"resize {name}", "Resize", x(*image), NONE, c([1, 1, *scales], "f4"), **attributes)


CASES = (
    _pool("max pool 2x2", "MaxPool", (1, 64, 112, 112), 2, 2),
    _pool("max pool 3x3 stride 2", "MaxPool", (1, 64, 112, 112), 3, 2, pads=[1] * 4),
    _pool("max pool 3x3 stride 1", "MaxPool", (1, 64, 56, 56), 3, 1, pads=[1] * 4),
    _pool("max pool 5x5 stride 1", "MaxPool", (1, 256, 20, 20), 5, 1, pads=[2] * 4),
    _pool("max pool 1-D", "MaxPool", (1, 128, 2000), 2, 2),
    _pool("max pool 3-D", "MaxPool", (1, 32, 16, 28, 28), 2, 2),
    _pool("average pool 2x2", "AveragePool", (1, 128, 56, 56), 2, 2),
    _pool("average pool 3x3 stride 1", "AveragePool", (1, 192, 28, 28), 3, 1, pads=[1] * 4),
    _pool("average pool 3x3 counting pads", "AveragePool", (1, 64, 56, 56), 3, 2, pads=[1] * 4,
          count_include_pad=1),
    _pool("average pool 7x7", "AveragePool", (1, 512, 7, 7), 7, 1),
    one("lp pool 2x2", "LpPool", x(1, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2], p=2),
    one("global average pool", "GlobalAveragePool", x(1, 2048, 7, 7)),
    one("global average pool 56", "GlobalAveragePool", x(1, 64, 56, 56)),
    one("global max pool", "GlobalMaxPool", x(1, 512, 14, 14)),
    _resize("nearest x2", (1, 64, 40, 40), 2, 2, mode="nearest", nearest_mode="floor",
            coordinate_transformation_mode="asymmetric"),
    _resize("linear x2", (1, 64, 28, 28), 2, 2, mode="linear"),
    _resize("linear x2 align corners", (1, 64, 28, 28), 2, 2, mode="linear",
            coordinate_transformation_mode="align_corners"),
    _resize("linear picture", (1, 3, 480, 640), 0.5, 0.5, mode="linear"),
    _resize("linear x8", (1, 21, 32, 32), 8, 8, mode="linear"),
    _resize("cubic x2", (1, 16, 32, 32), 2, 2, mode="cubic"),
    _resize("antialias picture", (1, 3, 480, 640), 0.35, 0.35, mode="linear", antialias=1),
    _resize("trilinear x2", (1, 16, 8, 16, 16), 2, 2, 2, mode="linear"),
    one("grid sample bilinear", "GridSample", x(1, 64, 40, 40), x(1, 40, 40, 2, low=-1.1, high=1.1),
        mode="linear", padding_mode="zeros"),
    one("roi align", "RoiAlign", x(1, 256, 50, 68), x(100, 4, low=0, high=200), c([0] * 100),
        output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.25),
    one("lrn", "LRN", x(1, 96, 27, 27), size=5),
    one("batch norm", "BatchNormalization", x(1, 64, 56, 56), w(64), w(64), w(64), w(64, low=0.5, high=2)),
    one("instance norm", "InstanceNormalization", x(1, 64, 56, 56), w(64), w(64)),
    one("group norm", "GroupNormalization", x(1, 128, 32, 32), w(128), w(128), opset=21, num_groups=32),
    one("depth to space", "DepthToSpace", x(1, 64, 64, 64), blocksize=2),
    one("depth to space CRD", "DepthToSpace", x(1, 48, 90, 90), blocksize=4, mode="CRD"),
    one("space to depth", "SpaceToDepth", x(1, 3, 416, 416), blocksize=2),
    one("affine grid", "AffineGrid", x(1, 2, 3), c([1, 3, 128, 128]), align_corners=0),
    one("upsample flow", "Resize", x(1, 2, 60, 80), NONE, c([1, 1, 8, 8], "f4"), mode="linear"),
    one("col2im", "Col2Im", x(1, 64 * 9, 784), c([28, 28]), c([3, 3]), pads=[1] * 4),
)  # fmt: skip

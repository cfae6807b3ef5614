"""Convolutions: dense, grouped, depthwise, dilated, transposed; in one, two and three dimensions."""

from __future__ import annotations

from typing import Any

from benchmarks.op_cases.case import Case, one, w, x


def _conv(
    name: str, image: tuple[int, ...], out: int, kernel: tuple[int, ...], group: int = 1, **more: Any
) -> Case:
    """Same padding unless ``pads`` says otherwise."""
    reach = [(k - 1) // 2 * d for k, d in zip(kernel, more.get("dilations", [1] * len(kernel)), strict=True)]
    attributes: dict[str, Any] = {"pads": reach * 2, "group": group} | more
    return one(f"conv {name}", "Conv", x(*image), w(out, image[1] // group, *kernel), w(out), **attributes)


def _transposed(
    name: str, image: tuple[int, ...], out: int, kernel: tuple[int, ...], group: int = 1, **more: Any
) -> Case:
    weight = w(image[1], out // group, *kernel)
    return one(f"transposed conv {name}", "ConvTranspose", x(*image), weight, w(out), group=group, **more)


CASES = (
    _conv("1x1 64 to 256 at 56", (1, 64, 56, 56), 256, (1, 1)),
    _conv("1x1 256 to 64 at 56", (1, 256, 56, 56), 64, (1, 1)),
    _conv("1x1 1024 to 256 at 14", (1, 1024, 14, 14), 256, (1, 1)),
    _conv("1x1 stride 2", (1, 256, 56, 56), 512, (1, 1), strides=[2, 2], pads=[0] * 4),
    _conv("1x1 16 to 96 at 112", (1, 16, 112, 112), 96, (1, 1)),
    _conv("1x1 960 to 160 at 7", (1, 960, 7, 7), 160, (1, 1)),
    _conv("1x1 to 3 channels", (1, 64, 128, 128), 3, (1, 1)),
    _conv("3x3 64 at 56", (1, 64, 56, 56), 64, (3, 3)),
    _conv("3x3 128 at 28", (1, 128, 28, 28), 128, (3, 3)),
    _conv("3x3 256 at 14", (1, 256, 14, 14), 256, (3, 3)),
    _conv("3x3 512 at 7", (1, 512, 7, 7), 512, (3, 3)),
    _conv("3x3 32 at 160", (1, 32, 160, 160), 32, (3, 3)),
    _conv("3x3 64 at 10", (1, 64, 10, 10), 64, (3, 3)),
    _conv("3x3 stride 2", (1, 128, 56, 56), 256, (3, 3), strides=[2, 2]),
    _conv("3x3 batch 8", (8, 64, 28, 28), 64, (3, 3)),
    _conv("5x5 48 at 27", (1, 48, 27, 27), 128, (5, 5)),
    _conv("7x7 64 at 28", (1, 64, 28, 28), 64, (7, 7)),
    _conv("1x7", (1, 128, 17, 17), 128, (1, 7)),
    _conv("7x1", (1, 128, 17, 17), 128, (7, 1)),
    _conv("9x1 on width 1", (1, 64, 1000, 1), 64, (9, 1)),
    _conv("stem 7x7 stride 2", (1, 3, 224, 224), 64, (7, 7), strides=[2, 2]),
    _conv("stem 3x3 stride 2", (1, 3, 224, 224), 32, (3, 3), strides=[2, 2]),
    _conv("stem 4x4 stride 4", (1, 3, 224, 224), 96, (4, 4), strides=[4, 4], pads=[0] * 4),
    _conv("patches 16", (1, 3, 224, 224), 768, (16, 16), strides=[16, 16], pads=[0] * 4),
    _conv("patches 14", (1, 3, 224, 224), 384, (14, 14), strides=[14, 14], pads=[0] * 4),
    _conv("dilation 2", (1, 64, 56, 56), 64, (3, 3), dilations=[2, 2]),
    _conv("dilation 12", (1, 128, 32, 32), 128, (3, 3), dilations=[12, 12]),
    _conv("grouped 32 of 4", (1, 128, 56, 56), 128, (3, 3), 32),
    _conv("grouped 2", (1, 96, 27, 27), 256, (5, 5), 2),
    _conv("grouped 1x1", (1, 240, 28, 28), 240, (1, 1), 3),
    _conv("depthwise 3x3 96 at 112", (1, 96, 112, 112), 96, (3, 3), 96),
    _conv("depthwise 3x3 stride 2", (1, 144, 56, 56), 144, (3, 3), 144, strides=[2, 2]),
    _conv("depthwise 3x3 960 at 7", (1, 960, 7, 7), 960, (3, 3), 960),
    _conv("depthwise 5x5 240 at 28", (1, 240, 28, 28), 240, (5, 5), 240),
    _conv("depthwise 7x7 96 at 56", (1, 96, 56, 56), 96, (7, 7), 96),
    _conv("depthwise 7x7 768 at 7", (1, 768, 7, 7), 768, (7, 7), 768),
    _conv("depthwise multiplier 2", (1, 32, 56, 56), 64, (3, 3), 32),
    _conv("1-D 3 wide 512", (1, 512, 128), 512, (3,)),
    _conv("1-D 5 wide 512", (1, 512, 128), 512, (5,)),
    _conv("1-D stem 80 to 384", (1, 80, 1000), 384, (3,)),
    _conv("1-D waveform 10 wide stride 5", (1, 1, 16000), 512, (10,), strides=[5], pads=[0, 0]),
    _conv("1-D dilation 4", (1, 128, 500), 128, (3,), dilations=[4]),
    _conv("1-D depthwise 31 wide", (1, 256, 200), 256, (31,), 256),
    _conv("1-D causal 1x1", (1, 256, 400), 512, (1,)),
    _conv("3-D 3x3x3", (1, 16, 16, 28, 28), 32, (3, 3, 3)),
    _conv("3-D 1x1x1", (1, 64, 8, 28, 28), 128, (1, 1, 1)),
    _conv("3-D 1x3x3", (1, 32, 8, 28, 28), 32, (1, 3, 3)),
    _conv("3-D 3x1x1", (1, 64, 8, 28, 28), 64, (3, 1, 1)),
    _conv("3-D patches 2x16x16", (1, 3, 8, 112, 112), 384, (2, 16, 16), strides=[2, 16, 16], pads=[0] * 6),
    _conv("3-D depthwise", (1, 48, 8, 28, 28), 48, (3, 3, 3), 48),
    _conv("3-D stride 2", (1, 16, 16, 32, 32), 32, (3, 3, 3), strides=[2, 2, 2]),
    _transposed("2x2 stride 2", (1, 128, 28, 28), 64, (2, 2), strides=[2, 2]),
    _transposed("4x4 stride 2", (1, 64, 28, 28), 32, (4, 4), strides=[2, 2], pads=[1] * 4),
    _transposed("3x3 stride 2", (1, 64, 28, 28), 64, (3, 3), strides=[2, 2], pads=[1] * 4),
    _transposed("3x3 stride 1", (1, 64, 28, 28), 64, (3, 3), pads=[1] * 4),
    _transposed("9x9 stride 3", (1, 56, 32, 32), 1, (9, 9), strides=[3, 3], pads=[4] * 4),
    _transposed("depthwise 4x4 stride 2", (1, 64, 28, 28), 64, (4, 4), 64, strides=[2, 2], pads=[1] * 4),
    _transposed("1-D 16 wide stride 8", (1, 128, 100), 64, (16,), strides=[8], pads=[4, 4]),
    _transposed("3-D 2x2x2 stride 2", (1, 32, 8, 14, 14), 16, (2, 2, 2), strides=[2, 2, 2]),
)

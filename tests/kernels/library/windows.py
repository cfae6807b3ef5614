"""What tests of convolutions share: windows, layouts, the float64 reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

LAYOUTS = {
    "nchw": ((0, 1, 2, 3), 0, 1),
    "nhwc": ((0, 2, 3, 1), 0, 1),
    "rows apart": ((0, 1, 2, 3), 3, 1),
    "scattered": ((1, 0, 2, 3), 1, 3),
}


@dataclass(frozen=True)
class Window:
    """Pads are top, left, bottom, right."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)

    def output(self, h: int, w: int) -> tuple[int, int]:
        top, left, bottom, right = self.pads
        spans = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        return (h + top + bottom - spans[0]) // self.stride[0] + 1, (
            w + left + right - spans[1]
        ) // self.stride[1] + 1


def reference(x: Any, w: Any, bias: Any, groups: int, window: Window, act: int) -> Any:
    """Sums over the taps of shifted images, in float64."""
    (top, left, bottom, right), (oh, ow) = window.pads, window.output(*x.shape[2:])
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (top, bottom), (left, right)])
    n, cin, cout = x.shape[0], x.shape[1] // groups, w.shape[0] // groups
    y = np.zeros((n, groups, cout, oh, ow))
    weights = w.astype(np.float64).reshape(groups, cout, *w.shape[1:])
    for i in range(window.kernel[0]):
        for j in range(window.kernel[1]):
            (dy, dx), (sy, sx) = window.dilation, window.stride
            part = padded[
                :, :, i * dy : i * dy + (oh - 1) * sy + 1 : sy, j * dx : j * dx + (ow - 1) * sx + 1 : sx
            ]
            y += np.einsum("ngchw,gdc->ngdhw", part.reshape(n, groups, cin, oh, ow), weights[..., i, j])
    y = y.reshape(n, groups * cout, oh, ow)
    y = y if bias is None else y + bias[:, None, None]
    return np.maximum(y, 0) if act else y


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def assert_near(actual: Any, expected: Any, depth: int) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * (depth + 4) ** 0.5)


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
WINDOWS = st.builds(
    Window, kernel=st.tuples(st.sampled_from([1, 2, 3, 5]), st.sampled_from([1, 2, 3, 7])), stride=pairs,
    pads=st.tuples(*[st.integers(0, 3)] * 4), dilation=pairs,
)  # fmt: skip

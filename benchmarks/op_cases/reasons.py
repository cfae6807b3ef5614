"""Why some ops are slower than the best peer, by a part of the case's name; the first that fits counts."""

from __future__ import annotations

from typing import Final

_BYTES: Final = "OpenVINO rounds the activations to bytes (errors of 5e-3, here 2e-6)"
_SINGLE: Final = "OpenVINO computes f64 in f32 (errors of 1e-7); ONNX Runtime's time is about the same"
_WRITES: Final = "memory-bound; within the noise of the measurement on a shared machine"

REASONS: Final[dict[str, str]] = {
    "bit weights": _BYTES,
    "f64": _SINGLE,
    "mod f32": "OpenVINO takes a - trunc(a / b) * b in f32, which loses digits; here the remainder is exact",
    "matmul i32": "a generated loop; OpenVINO has a tiled product",
    "col2im": "columns are scattered one element at a time",
    "cumsum first": "totals of a block of columns are loaded and stored for each row",
    "sum first of 100000x8": "rows of 8 leave half of a vector empty",
    "sum short last": "sums of 4 lanes are taken one row at a time",
    "sum 3 last": "sums of 3 lanes are taken one row at a time",
    "scatter nd": "copies the input first, then rows one by one",
    "scatter elements": "copies the input first, then moves elements one by one",
    "transposed conv 9x9": "one output channel fills a twelfth of the register tile",
    "transposed conv depthwise": "each channel is a group with a register tile of its own",
    "conv dilation 12": "taps in the padding are copied and multiplied as zeros",
    "conv 3-D patches": "columns 16 apart are gathered one by one",
    "pad ": "elements of the border are found one by one",
    "tile both": "runs of 112 bytes are copied one by one",
    "range": "its size is known at run time only: a step of the host between two programs",
    "unique": "sizes known at run time only: a step of the host between two programs",
    "compress": "sizes known at run time only: a step of the host between two programs",
    "dynamic quantize": "two passes for the range, a third to quantise",
    "gather elements": "elements are gathered one by one after a pass that checks the indices",
    "picture with alpha": "bound by the third-level cache; 1.04 to 1.7 in several runs",
    "argmax": _WRITES,
    "tanh": "within the noise of the measurement on a shared machine",
    "matmul ": _WRITES,
    "add ": _WRITES,
    "and": _WRITES,
    "not": _WRITES,
}

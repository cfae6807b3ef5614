"""Why some ops are slower than the best peer, by a part of the case's name; the first that fits counts."""

from __future__ import annotations

from typing import Final

_BYTES: Final = "OpenVINO rounds the activations to bytes (errors of 5e-3, here 2e-6)"
_SINGLE: Final = "OpenVINO computes f64 in f32 (errors of 1e-7); ONNX Runtime's time is about the same"
_WRITES: Final = "memory-bound: 0.9 to 1.15 in several runs on a shared machine"
_HOST: Final = "its size is known at run time only: a step of the host between two programs"
_BOUND: Final = "bound by multiply-adds, as the peer is: 0.9 to 1.1 in several runs"
_SCALARS: Final = (
    "bound by arithmetic; errors stay below 2 units in the last place: 0.95 to 1.1 in several runs"
)
_GATHERS: Final = "on more threads each unit copies its pixels again: a tenth of the time"
_SEQUENCE: Final = "up to 6 sequences run on one core; ONNX Runtime splits the product of each step"
_LAUNCHES: Final = "a dozen short launches, for each of which threads meet: 0.7 to 1.15 in several runs"

REASONS: Final[dict[str, str]] = {
    "bit weights": _BYTES,
    "matmul f64": _SINGLE,
    "exp f64": _SINGLE,
    "transposed conv 9x9": "one output channel fills a twelfth of the register tile",
    "conv dilation 12": "taps in the padding are copied and multiplied as zeros",
    "conv stem 4x4": "a tenth of the time brings blocks of channels into the order of the model's output",
    "conv 3-D depthwise": "sums of planes of taps wait in the second-level cache: 0.9 to 1.1 in several runs",
    "conv 3-D patches": _GATHERS,
    "conv patches": _GATHERS,
    "conv ": _BOUND,
    "qlinear conv": _BOUND,
    "pool": "on more threads a share of the time is the change to blocks of channels and back",
    "grid sample": _LAUNCHES,
    "roi align": _LAUNCHES,
    "resize nearest": "places of rows are computed anew in each plane: 8 ns for a row of 80",
    "resize linear picture": "every second column is gathered one by one: 0.95 to 1.0 in several runs",
    "resize antialias": "along the width, 16 elements are gathered for each tap: 0.8 to 1.0 on one thread",
    "scatter elements": "copies the input first, then moves elements one by one",
    "gather elements": "elements are gathered one by one after a pass that checks the indices",
    "mod i32": "the quotient is taken of doubles, in two halves a vector: 0.97 to 1.07 in several runs",
    "range": _HOST,
    "unique": _HOST,
    "compress": _HOST,
    "dynamic quantize": "two passes for the range, a third to quantise",
    "picture with alpha": "four planes are written side by side, beyond the second-level cache: 1.04 to 1.7",
    "rotate half": "halves are copied out, negated and copied back: four passes over memory",
    "matmul 16x20000x16": "on one thread at the speed of memory; the sum over K is not split among threads",
    "matmul N": _WRITES,
    "matmul K": _WRITES,
    "matmul points": _WRITES,
    "fused matmul": "a fed B is transposed first, a twentieth of the time, and A packed by each thread",
    "matmul ": _BOUND,
    "gemm": _BOUND,
    "einsum": _BOUND,
    "attention": _BOUND,
    "LSTM": _SEQUENCE,
    "GRU": _SEQUENCE,
    "RNN": _SEQUENCE,
    "softmax": _SCALARS,
    "tanh": _SCALARS,
    "gelu": _SCALARS,
    "exp": _SCALARS,
    "sigmoid": _SCALARS,
    "silu": _SCALARS,
    "argmax": _WRITES,
    "slice": _WRITES,
    "concat": _WRITES,
    "split": _WRITES,
    "pad ": _WRITES,
    "expand": _WRITES,
    "transpose": _WRITES,
    "add ": _WRITES,
    "kv cache": _WRITES,
}

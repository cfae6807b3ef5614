"""Why some ops are slower than the best peer, by a part of the case's name; the first that fits counts."""

from __future__ import annotations

from typing import Final

_BYTES: Final = "OpenVINO quantizes the activations to 8 bits (errors of 5e-3, here 2e-6)"
_SINGLE: Final = "OpenVINO computes f64 in f32 (errors of 1e-7); ONNX Runtime takes about the same time"
_WRITES: Final = "memory-bound: 0.9 to 1.15 in several runs on a shared machine"
_HOST: Final = "data-dependent size: a step of the host program between two programs"
_BOUND: Final = "limited by multiply-adds, as the peer is: 0.9 to 1.1 in several runs"
_SCALARS: Final = "limited by arithmetic with errors below 2 ULP: 0.95 to 1.1 in several runs"
_GATHERS: Final = "with several threads each unit copies its pixels again: a tenth of the time"
_SEQUENCE: Final = (
    "up to 6 sequences run on one core; ONNX Runtime splits the matrix multiplication of each step"
)
_LAUNCHES: Final = "a dozen short launches, each with a thread barrier: 0.7 to 1.15 in several runs"

REASONS: Final[dict[str, str]] = {
    "bit weights": _BYTES,
    "matmul f64": _SINGLE,
    "exp f64": _SINGLE,
    "transposed conv 9x9": "one output channel fills one twelfth of the register tile",
    "conv dilation 12": "measured when it multiplied taps in the padding; since then 0.95 on a Zen 5",
    "conv stem 4x4": "a tenth of the time converts the channel-blocked result to the output layout",
    "conv 3-D depthwise": "partial sums of planes stay in L2: 0.9 to 1.1 in several runs",
    "conv 3-D patches": _GATHERS,
    "conv patches": _GATHERS,
    "conv ": _BOUND,
    "qlinear conv": _BOUND,
    "pool": "with several threads, part of the time converts to the channel-blocked layout and back",
    "grid sample": _LAUNCHES,
    "roi align": "measured as a dozen short launches; it has one kernel since then",
    "resize nearest": "row indices are computed again for each plane: 8 ns for a row of 80",
    "resize linear picture": "gathers every second column element by element: 0.95 to 1.0 in several runs",
    "resize antialias": "along the width, 16 elements are gathered for each tap: 0.8 to 1.0 on one thread",
    "scatter elements": "copies the input first, then scatters element by element",
    "gather elements": "gathers element by element, after a pass that checks the indices",
    "mod i32": "divides as f64, in two halves per vector: 0.97 to 1.07 in several runs",
    "range": _HOST,
    "unique": _HOST,
    "compress": _HOST,
    "dynamic quantize": "two passes for the range, a third to quantize",
    "picture with alpha": "writes four interleaved planes that exceed L2: 1.04 to 1.7",
    "rotate half": "copies halves out, negates them and copies them back: four passes over memory",
    "matmul 16x20000x16": "memory-bound on one thread; the sum over K is not split among threads",
    "matmul N": _WRITES,
    "matmul K": _WRITES,
    "matmul points": _WRITES,
    "fused matmul": "transposes a non-constant B first (a twentieth of the time); each thread packs A",
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

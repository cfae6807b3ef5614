"""Samples that do not run natively, each with its reason. A new native form takes its line away."""

from __future__ import annotations

HOST_CALLS: dict[str, dict[int, str]] = {
    "GRU": {3: "f64: the library's recurrent kernels are f32"},
    "LSTM": {5: "f64: the library's recurrent kernels are f32"},
    "Resize": {36: "f64 of no elements to some: zeros by definition"},
}
"""By op: numbers of samples that run as a HostCall on the reference."""

REFUSED: dict[str, dict[int, str]] = {
    "Identity": {3: "strings do not reach devices"},
    "NonZero": {k: "the size of the result depends on elements" for k in range(3)},
    "Where": {5: "strings do not reach devices"},
}
"""By op: numbers of samples that a device refuses."""

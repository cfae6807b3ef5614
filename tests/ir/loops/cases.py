"""Kernels as texts, with input arrays and the expected outputs, computed with plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]

TEXTS = Path(__file__).parent / "texts"


@dataclass(frozen=True)
class Case:
    """``sizes`` to run at, each in turn; ``expected`` gives the outputs from all arrays."""

    name: str
    sizes: tuple[dict[str, int], ...]
    expected: Callable[[Arrays, dict[str, int]], Arrays]
    make: Callable[[str, Arrays, dict[str, int]], None] = lambda name, arrays, sizes: None
    tolerance: float = 2e-5

    @property
    def text(self) -> str:
        return (TEXTS / f"{self.name}.loop").read_text()


def _softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _layernorm_gemm(a: Arrays, sizes: dict[str, int]) -> Arrays:
    x = a["x"].astype(np.float64)
    h = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return {"y": (h * a["gamma"] + a["beta"]) @ a["w"].astype(np.float64)}


def _swiglu(a: Arrays, sizes: dict[str, int]) -> Arrays:
    x = a["x"].astype(np.float64)
    gate = x @ a["gate"]
    return {"y": gate / (1 + np.exp(-gate)) * (x @ a["up"])}


def _attention(a: Arrays, sizes: dict[str, int]) -> Arrays:
    q, k, v = (a[n].astype(np.float64) for n in "qkv")
    return {"y": _softmax(np.einsum("htd,hsd->hts", q, k) * 0.125) @ v}


def _inverted_residual(a: Arrays, sizes: dict[str, int]) -> Arrays:
    x = a["x"].astype(np.float64)
    wide = np.clip(np.einsum("ec,chw->ehw", a["expand"], x), 0, 6)
    padded = np.pad(wide, ((0, 0), (1, 1), (1, 1)))
    h, w = x.shape[1:]
    deep = sum(
        a["depth"][:, i, j, None, None] * padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)
    )
    return {"y": np.einsum("oe,ehw->ohw", a["project"], np.clip(deep, 0, 6)) + x}


def _concat_slot(a: Arrays, sizes: dict[str, int]) -> Arrays:
    y = a["y"].copy()
    y[:, sizes["first"] : sizes["first"] + sizes["C"]] = np.maximum(a["x"], 0)
    return {"y": y}


def _ids(name: str, arrays: Arrays, sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(5)
    arrays["ids"][...] = rng.integers(-sizes["V"], sizes["V"], sizes["N"])


def _gelu(a: Arrays, sizes: dict[str, int]) -> Arrays:
    x = a["x"].astype(np.float64)
    return {"y": 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))}


CASES = (
    Case(
        "softmax",
        ({"R": 3, "C": 37}, {"R": 2, "C": 1}, {"R": 5, "C": 256}),
        lambda a, s: {"y": _softmax(a["x"])},
    ),
    Case("layernorm_gemm", ({"R": 13, "K": 33, "N": 40}, {"R": 1, "K": 8, "N": 70}), _layernorm_gemm),
    Case("swiglu", ({"R": 14, "K": 20, "N": 71}, {"R": 5, "K": 1, "N": 3}), _swiglu),
    Case(
        "attention",
        ({"H": 2, "T": 17, "S": 41, "D": 16}, {"H": 1, "T": 1, "S": 1, "D": 5}),
        _attention,
    ),
    Case(
        "inverted_residual",
        ({"C": 3, "E": 7, "H": 5, "W": 21}, {"C": 1, "E": 2, "H": 1, "W": 1}),
        _inverted_residual,
    ),
    Case(
        "split_sum",
        ({"N": 3000, "P": 3}, {"N": 1, "P": 1}),
        lambda a, s: {"y": a["x"].astype(np.float64).sum(keepdims=True)},
    ),
    Case(
        "concat_slot",
        ({"N": 3, "C": 19, "T": 40, "first": 7}, {"N": 1, "C": 1, "T": 1, "first": 0}),
        _concat_slot,
    ),
    Case(
        "embedding",
        ({"N": 6, "V": 11, "D": 21}, {"N": 1, "V": 1, "D": 1}),
        lambda a, s: {"y": a["table"][a["ids"]]},
        _ids,
        0,
    ),
    Case("transpose", ({"M": 21, "N": 18}, {"M": 1, "N": 3}), lambda a, s: {"y": a["x"].T}, tolerance=0),
    Case("gelu", ({"N": 10000}, {"N": 5}, {"N": 0}), _gelu),
)


def arrays_of(case: Case, kernel: Any, sizes: dict[str, int]) -> Arrays:
    """Random arrays for each parameter of ``kernel`` (a loop IR kernel)."""
    rng = np.random.default_rng(11)
    arrays: Arrays = {}
    for parameter in kernel.parameters:
        shape = [d if isinstance(d, int) else sizes[str(d)] for d in parameter.shape]
        arrays[parameter.name] = rng.standard_normal(shape).astype(parameter.dtype.numpy)
    case.make(case.name, arrays, sizes)
    return arrays

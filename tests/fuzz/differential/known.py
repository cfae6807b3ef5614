"""Differences that stay, each with what the standard says, or with the defect of the peer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .attempt import Mismatch


@dataclass(frozen=True)
class Known:
    """Mismatches whose kind, op and text match; ``reason`` says who is right, and why."""

    reason: str
    kind: str = ""
    op: str = ""
    text: str = ""
    peer: str = ""

    def covers(self, mismatch: Mismatch) -> bool:
        return (
            (not self.kind or mismatch.kind in self.kind.split())
            and (not self.op or mismatch.op in self.op.split())
            and (not self.peer or mismatch.peer == self.peer)
            and re.search(self.text, mismatch.text) is not None
        )


KNOWN: tuple[Known, ...] = (
    # ONNX Runtime refuses what the standard allows
    Known(
        "ONNX Runtime refuses axes of no elements",
        "acceptance",
        text="pool_attributes.h:124|at least 1, got 0",
    ),
    Known(
        "ONNX Runtime refuses outputs of no elements", "acceptance", text="Computed output dimension is <= 0"
    ),
    Known(
        "ONNX Runtime refuses dilation with auto_pad", "acceptance", text="Dilation not supported for AutoPad"
    ),
    Known(
        "ONNX Runtime has no kernel for a type, and says so late",
        "acceptance",
        text="data type is not supported",
    ),
    Known(
        "ONNX Runtime inserts nodes of its own that do not fit a model",
        "acceptance",
        text="ReorderOutput|Type parameter",
    ),
    Known(
        "ONNX Runtime wants strings to be a row of at least one",
        "acceptance",
        "StringNormalizer TfIdfVectorizer",
        "Input",
    ),
    Known("ONNX Runtime itself dies", "crash", text="^peer"),
    # Values
    Known(
        '"for scalar input, NonZero produces output shape (0, N)"; ONNX Runtime gives (1, N)',
        "shape",
        "NonZero",
        r"\(0,",
    ),
    Known(
        "The standard adds 1e-9 to a deviation of 0; ONNX Runtime divides 0 by 0",
        "values",
        "MeanVarianceNormalization",
    ),
    Known("Cast gives strings as NumPy does, 1.0; ONNX Runtime gives 1", "values", "Cast CastLike", "'"),
    Known("ONNX Runtime computes f64 in f32", "values", "Shrink", "float64", "ort"),
)


def known(mismatch: Mismatch) -> Known | None:
    return next((k for k in KNOWN if k.covers(mismatch)), None)

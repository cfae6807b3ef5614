"""Computes the ops after a matrix product or convolution in its epilogue, while tiles are stored."""

from __future__ import annotations

from graphwright.fusion.benefit import rounded_images_stay_apart
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import ALL, FusionRule


def _has_contraction(candidate: Candidate) -> bool:
    return candidate.anchor is not None


EPILOGUE = FusionRule(
    "epilogue",
    "computes bias, activation, scale and residual in the epilogue of a matrix multiplication or convolution",
    _has_contraction,
    rounded_images_stay_apart,
    level=ALL,
)

"""Fixtures of the tests that compare ``graphwright.onnxruntime`` with ONNX Runtime."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import onnxruntime as theirs
import pytest

import graphwright.onnxruntime as ours
from tests.onnxruntime.support import sums


@pytest.fixture(scope="module")
def pair() -> dict[ModuleType, Any]:
    return {engine: engine.InferenceSession(sums()) for engine in (ours, theirs)}

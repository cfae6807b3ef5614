"""The ONNX frontend: ``load(source) -> Module``.

It supports opsets 1 to 28 of the default domain. The ``onnx`` tables of registered ops map ONNX ops to ops.
Model-local functions are inlined, and ops that the specification only defines as functions are expanded.

The frontend reads protobuf messages itself. The package onnx-ir would stop at the first fault of a model,
where one error should list all faults, and its import takes longer than a warm compilation.
"""

from __future__ import annotations

from graphwright.frontends.onnx.model import Opened, load, open_model

__all__ = ["Opened", "load", "open_model"]

"""Reads the nodes of graphs with complex tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from graphwright.frontends.torch.complex_numbers import (
    complex_constant,
    flat_parts,
    fourier,
    is_complex,
    with_pairs,
)
from graphwright.frontends.torch.complex_rules import on_parts
from graphwright.frontends.torch.decompositions import operands
from graphwright.frontends.torch.nodes import NodeReader
from graphwright.frontends.torch.types import Unsupported


class ComplexNodeReader(NodeReader):
    """Reads complex tensors as pairs of real ones, and factorizations: nothing can be left to PyTorch."""

    left_to_pytorch = frozenset()

    def _constant(self, tensor: torch.Tensor) -> Any:
        return complex_constant(tensor, self._builder) if tensor.is_complex() else super()._constant(tensor)

    def _computed(self, node: fx.Node) -> Any:
        if not is_complex(node):
            return super()._computed(node)
        result = fourier(node, self.resolved(node.args), self._builder)
        if result is not None:
            return result
        traced = on_parts(node)
        if traced is None:
            raise Unsupported("there is no rule for it on complex numbers")
        return with_pairs(node, self._part(traced, flat_parts(list(map(self.resolved, operands(node))))))

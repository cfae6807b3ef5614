"""Reads the nodes of graphs with complex tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

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
from graphwright.frontends.torch.decompositions import Decomposer, operands
from graphwright.frontends.torch.nodes import NodeReader
from graphwright.frontends.torch.types import Unsupported


class ComplexNodeReader(NodeReader):
    """Reads complex tensors as pairs of real ones."""

    @cached_property
    def _on_parts(self) -> Decomposer:
        return Decomposer(on_parts)

    def _constant(self, tensor: torch.Tensor) -> Any:
        return complex_constant(tensor, self._builder) if tensor.is_complex() else super()._constant(tensor)

    def _computed(self, node: fx.Node) -> Any:
        if not is_complex(node):
            return super()._computed(node)
        result = fourier(node, self.resolved(node.args), self._builder)
        if result is not None:
            return result
        traced = self._on_parts(node)
        if traced is None:
            raise Unsupported("there is no rule for it on complex numbers")
        return with_pairs(node, self._part(traced, flat_parts(list(map(self.resolved, operands(node))))))


class ExportedNodeReader(ComplexNodeReader):
    """Reads factorizations and Fourier transforms as well: nothing can be left to PyTorch."""

    left_to_pytorch: ClassVar[Mapping[Any, str]] = {}

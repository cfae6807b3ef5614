"""Reads the nodes of graphs with complex tensors."""

from __future__ import annotations

from collections.abc import Mapping
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
from graphwright.ir.build import Builder


class ComplexNodeReader(NodeReader):
    """Reads complex tensors as pairs of real ones."""

    def __init__(
        self,
        builder: Builder,
        owner: torch.nn.Module,
        depth: int = 0,
        decomposer: Decomposer | None = None,
    ) -> None:
        super().__init__(builder, owner, depth, decomposer)
        self._on_parts = Decomposer(on_parts)

    def _constant(self, tensor: torch.Tensor) -> Any:
        return complex_constant(tensor, self._builder) if tensor.is_complex() else super()._constant(tensor)

    def _computed(self, node: fx.Node) -> Any:
        if not is_complex(node):
            return super()._computed(node)
        if reason := self.left_to_pytorch.get(node.target):
            raise Unsupported(reason)
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

"""Finds the block size of models that ONNX Runtime saved with channels in blocks (domain
com.microsoft.nchwc).

ONNX Runtime chooses 8 or 16 channels by the processor, and does not write the number into the model. A size
that is not a multiple of 16, or is smaller, often proves it. If none does, the model is read as ONNX Runtime
reads it on this machine.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import onnx
from onnx import helper

from graphwright import log
from graphwright.frontends.onnx.model_files import ModelFiles
from graphwright.frontends.onnx.tensors import to_array
from graphwright.ops.contrib.nchwc import DOMAIN
from graphwright.ops.core.reshape import Reshape

_SMALL, _LARGE = 8, 16
_CPU = Path("/proc/cpuinfo")


def with_block_size(
    nodes: Sequence[onnx.NodeProto], graph: onnx.GraphProto, files: ModelFiles
) -> Sequence[onnx.NodeProto]:
    """``nodes`` of ``graph``, with the block size as the attribute ``block`` of all nodes of the domain.

    A Reshape that adds the axis of blocks to a blocked value, or removes it, becomes a node of the domain.
    """
    graphs = list(_graphs(graph))
    if not any(node.domain == DOMAIN for each in graphs for node in each.node):
        return nodes
    found = next((size for each in graphs for size in _evidence(each, files)), None)
    if found is None:
        found = _of_this_machine()
        message = (
            "ONNX Runtime saved the model with blocks of channels, but no size in it proves the block size: "
            "it is read with blocks of %d, as on this machine. If the results are wrong, use the original "
            "model"
        )
        log.warn_once(message, message, found)
    return _marked(nodes, _blocked(graph), found)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and its subgraphs."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            yield from _graphs(attribute.g)


def _blocked(graph: onnx.GraphProto) -> set[str]:
    """The values of the graph whose channels are in blocks: results of the domain, and what nodes compute
    from such values alone.
    """
    constants, found = {tensor.name for tensor in graph.initializer}, set[str]()
    for node in graph.node:
        operands = {name for name in node.input if name} - constants
        is_blocked = (
            _channels(node) is None if node.domain == DOMAIN else bool(operands) and operands <= found
        )
        if is_blocked:
            found.update(node.output)
    return found


def _channels(node: onnx.NodeProto) -> int | None:
    """The number of channels in the result of a node that removes blocks; None for other nodes."""
    return next((attribute.i for attribute in node.attribute if attribute.name == "channels"), None)


def _is_reshape(node: onnx.NodeProto, blocked: set[str]) -> bool:
    """Whether the node separates or merges the axes of blocks."""
    return node.op_type == Reshape.name and not node.domain and blocked.issuperset(node.input[:1])


def _evidence(graph: onnx.GraphProto, files: ModelFiles) -> Iterator[int]:
    """The block sizes that single nodes prove."""
    tensors: Mapping[str, onnx.TensorProto] = {tensor.name: tensor for tensor in graph.initializer}
    blocked, channels_of = _blocked(graph), dict[str, int]()
    for node in graph.node:
        x, y = next(iter(node.input), ""), next(iter(node.output), "")
        constant = tensors.get(node.input[1]) if len(node.input) > 1 else None
        if constant is not None and _is_reshape(node, blocked) and constant.dims == [5]:
            yield _LARGE if to_array(constant, files)[-1] == _LARGE else _SMALL
        if node.domain != DOMAIN:
            continue
        channels = _channels(node)
        if channels is not None and channels_of.get(x, 0) - channels >= _SMALL:
            yield _LARGE
        if constant is not None and len(constant.dims) == 4:
            channels_of[y] = constant.dims[0]
            groups = next((a.i for a in node.attribute if a.name == "group"), 1)
            yield from _of_weights(constant.dims, groups, x in blocked)


def _of_weights(dims: Sequence[int], groups: int, reads_blocks: bool) -> Iterator[int]:
    """The block size that the weights [O, I, H, W] of a convolution prove."""
    outputs, inputs = dims[:2]
    if outputs % _LARGE or (groups == 1 and inputs > _LARGE and inputs % _LARGE):
        yield _SMALL
    if 1 < groups < outputs and (inputs % _LARGE or outputs // groups % _LARGE):
        yield _SMALL
    if groups == 1 and _SMALL <= inputs < _LARGE:
        yield _SMALL if reads_blocks else _LARGE


def _of_this_machine() -> int:
    """The number of channels in a block that ONNX Runtime chooses here."""
    if platform.machine() in ("aarch64", "arm64"):
        return _LARGE
    return _LARGE if _CPU.exists() and " avx512f " in _CPU.read_text() else _SMALL


def _marked(nodes: Sequence[onnx.NodeProto], blocked: set[str], block: int) -> list[onnx.NodeProto]:
    """Copies of ``nodes`` with the attribute ``block``, also in subgraphs."""
    copies = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        if _is_reshape(node, blocked):
            copy.domain = DOMAIN
        if copy.domain == DOMAIN:
            copy.attribute.append(helper.make_attribute("block", block))
        for attribute in copy.attribute:
            if attribute.HasField("g"):
                inner = _marked(attribute.g.node, _blocked(attribute.g), block)
                del attribute.g.node[:]
                attribute.g.node.extend(inner)
        copies.append(copy)
    return copies

"""Restores results that share memory with each other or with arguments, as in eager mode.

A compiled graph returns each result in new memory. So results that are views are removed from the graph
before it is compiled, and made again from the results of a run.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from graphwright.frontends.torch.graph import COPY_BACK, argument_symbols
from graphwright.frontends.torch.higher_order import wrapped
from graphwright.frontends.torch.interface import Argument
from graphwright.frontends.torch.types import Unsupported, dim_from, size_hint
from graphwright.ir.symbols import Dim, floordiv, names_in
from graphwright.records import dataclass


@dataclass(frozen=True)
class View:
    """A result in the memory of ``base``, which is an argument (by position) or a result of the compiled
    graph.

    The offset is in elements of the view; for a view of an argument, it is relative to the offset of the
    argument. The view may have another dtype than ``base`` (``x.view(torch.int32)``), and may be conjugated
    or negated.
    """

    base: int
    of_argument: bool
    sizes: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    offset: Dim
    dtype: torch.dtype
    conjugated: bool
    negated: bool

    def of(
        self, base: torch.Tensor, number: Callable[[Dim, Sequence[Any]], int], arguments: Sequence[Any]
    ) -> torch.Tensor:
        """Makes the view; ``number`` returns the value of a size."""
        sizes = [number(size, arguments) for size in self.sizes]
        strides = [number(stride, arguments) for stride in self.strides]
        offset = number(self.offset, arguments)
        if self.of_argument:
            offset += base.storage_offset() * base.itemsize // self.dtype.itemsize
        if base.dtype == self.dtype:
            view = base.detach().as_strided(sizes, strides, offset)
        else:
            view = torch.empty(0, dtype=self.dtype).set_(base.untyped_storage(), offset, sizes, strides)
        view = view if view.is_conj() == self.conjugated else view.conj()
        return view if view.is_neg() == self.negated else torch._neg_view(view)


@dataclass(frozen=True)
class Base:
    """A result of the compiled graph that is the base of views: its number, and the strides that the views
    assume.
    """

    number: int
    strides: tuple[Dim, ...]

    def laid_out(
        self, tensor: torch.Tensor, number: Callable[[Dim, Sequence[Any]], int], arguments: Sequence[Any]
    ) -> torch.Tensor:
        """``tensor``, copied if its strides differ from the assumed ones, as operators that PyTorch runs
        choose their strides themselves.
        """
        strides = [number(stride, arguments) for stride in self.strides]
        pairs = zip(tensor.shape, tensor.stride(), strides, strict=True)
        if all(own == stated for size, own, stated in pairs if size != 1):
            return tensor
        return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor.detach())


@dataclass(frozen=True)
class Views:
    """For each result of a graph: its view, the argument that it is, or its number among the results of the
    compiled graph.
    """

    results: tuple[View | Argument | int, ...]
    bases: tuple[Base, ...]

    def restoring(
        self, run: Callable[..., Sequence[Any]], number: Callable[[Dim, Sequence[Any]], int]
    ) -> Callable[..., list[Any]]:
        """``run``, extended to return all results of the graph. ``number`` computes the value of a size from
        the arguments.
        """

        def call(*arguments: Any) -> list[Any]:
            results = list(run(*arguments))
            for base in self.bases:
                results[base.number] = base.laid_out(results[base.number], number, arguments)
            return [self._result(each, results, arguments, number) for each in self.results]

        return call

    def _result(
        self,
        result: View | Argument | int,
        results: Sequence[Any],
        arguments: Sequence[Any],
        number: Callable[[Dim, Sequence[Any]], int],
    ) -> Any:
        if isinstance(result, int):
            return results[result]
        if isinstance(result, Argument):
            return arguments[result.position]
        return result.of((arguments if result.of_argument else results)[result.base], number, arguments)


def take_views(module: fx.GraphModule) -> Views | None:
    """Replaces results of a graph that are views by their bases; None if no result is a view."""
    graph = module.graph
    output = graph.output_node()
    given: Any = output.args[0]
    results = list(given) if isinstance(given, list | tuple) else [given]
    bases = _bases(graph, results)
    if not bases:
        return None
    positions = {node: k for k, node in enumerate(graph.find_nodes(op="placeholder"))}
    positions |= {value: positions[argument] for value, argument in _written(graph).items()}
    kept: dict[Any, int] = {}
    found: list[View | Argument | int] = []
    for k, result in enumerate(results):
        base = bases.get(k)
        if base is None:
            found.append(kept.setdefault(result if isinstance(result, fx.Node) else (k, result), len(kept)))
        elif base is result and base in positions:
            found.append(Argument(positions[base]))
        elif base in positions:
            found.append(_view(result, base, positions[base], of_argument=True))
        elif base is result:
            found.append(kept.setdefault(base, len(kept)))
        else:
            found.append(_view(result, base, kept.setdefault(base, len(kept)), of_argument=False))
    output.args = (tuple(each if isinstance(each, fx.Node) else each[1] for each in kept),)
    module.recompile()
    needed = {each.base for each in found if isinstance(each, View) and not each.of_argument}
    assumed = (
        Base(number, _geometry(node.meta["val"])[1]) for node, number in kept.items() if number in needed
    )
    return Views(tuple(found), tuple(assumed))


def data_dependent_views(graph: fx.Graph) -> dict[fx.Node, str]:
    """The results that are views with data-dependent offsets or sizes, and the nodes between them and their
    bases, with the reason why PyTorch runs them.
    """
    output: Any = graph.output_node().args[0]
    results = list(output) if isinstance(output, list | tuple) else [output]
    given = argument_symbols(graph)
    return {
        node: "the position of this view in its base depends on data"
        for k, base in _shared(graph, results).items()
        if not _is_known(results[k], base, given)
        for node in _between(results[k], base)
    }


def _between(node: Any, base: fx.Node) -> Iterator[fx.Node]:
    """The nodes from ``node`` up to ``base``: the first argument of an operator is the tensor that it
    views.
    """
    while node is not base and node.op == "call_function":
        yield node
        node = node.args[0]


def _bases(graph: fx.Graph, results: Sequence[Any]) -> dict[int, fx.Node]:
    """The base of each result that is a view at a known position, by the number of the result."""
    given = argument_symbols(graph)
    shared = _shared(graph, results)
    return {k: base for k, base in shared.items() if _is_known(results[k], base, given)}


def _shared(graph: fx.Graph, results: Sequence[Any]) -> dict[int, fx.Node]:
    """The base of each result that shares memory, by the number of the result."""
    known = _memories(graph)
    memories = {k: known[each] for k, each in enumerate(results) if each in known}
    shared, first, written = Counter(memories.values()), dict(_holders(graph, known)), _written(graph)
    first |= {known[value]: value for value in written if value in known}
    return {
        k: base
        for k, memory in memories.items()
        if (base := first.get(memory)) is not None
        and (shared[memory] > 1 or base.op == "placeholder" or base in written)
    }


def _written(graph: fx.Graph) -> dict[fx.Node, fx.Node]:
    """The new value of each argument that the graph changes, if both have the same strides: views of the
    value are then views of the argument.
    """
    writes = (node.args for node in graph.find_nodes(op="call_function", target=COPY_BACK))
    return {
        value: argument
        for argument, value in writes
        if argument.op == "placeholder" and _strides(value) == _strides(argument) is not None
    }


def _strides(node: Any) -> Any:
    """The dtype, sizes and strides of a strided tensor; None for other results."""
    if _memory(node) is None:
        return None
    fake = node.meta["val"]
    try:
        return fake.dtype, *_geometry(fake)[:2]
    except Unsupported:
        return None


def _holders(graph: fx.Graph, memories: Mapping[fx.Node, Hashable]) -> Iterator[tuple[Hashable, fx.Node]]:
    """The first node with each memory, if its value covers all of this memory."""
    seen: set[Hashable] = set()
    for node in graph.nodes:
        memory = memories.get(node)
        if memory is None or memory in seen:
            continue
        seen.add(memory)
        if node.op == "placeholder" or (node.op == "call_function" and _is_dense(node.meta["val"])):
            yield memory, node


def _memories(graph: fx.Graph) -> dict[fx.Node, Hashable]:
    """The memory of each tensor. Equal calls of a graph (``invoke_subgraph``) have the same fake tensors, so
    the memory of their results follows from the graph that is called.
    """
    found: dict[fx.Node, Hashable] = {}
    for node in graph.nodes:
        memory = _memory(node)
        if memory is None:
            continue
        sources = (found[each] for each in node.all_input_nodes if _memory(each) == memory)
        called = _memory_of_call(node, found) if node.target is operator.getitem else None
        found[node] = next(sources, memory) if called is None else called
    return found


def _memory_of_call(result: fx.Node, memories: Mapping[fx.Node, Hashable]) -> Hashable | None:
    """The memory of a result of a called graph: that of an argument, or new memory; None if ``result`` is not
    from such a call.
    """
    call: Any = result.args[0]
    wrapper = wrapped(call)
    if wrapper is None:
        return None
    owner: Any = call.graph.owning_module
    body, arguments = owner.get_submodule(wrapper[0].target).graph, wrapper[1]
    inner = _memories(body)
    memory = inner.get(body.output_node().args[0][result.args[1]])
    if memory is None:
        return None
    pairs = zip(body.find_nodes(op="placeholder"), arguments, strict=True)
    return next((memories[given] for own, given in pairs if inner.get(own) == memory), (call, memory))


def _memory(node: Any) -> int | None:
    fake = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(fake, torch.Tensor) or fake.layout != torch.strided:
        return None
    return int(fake.untyped_storage()._cdata)


def _is_dense(fake: torch.Tensor) -> bool:
    expected = 1
    for stride, size in sorted(
        (size_hint(stride), size_hint(size)) for stride, size in zip(fake.stride(), fake.shape, strict=True)
    ):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return size_hint(fake.storage_offset()) == 0


def _is_known(result: fx.Node, base: fx.Node, given: set[str]) -> bool:
    """Whether the sizes, strides and offsets of both follow from the shapes of the arguments; otherwise they
    are data-dependent.
    """
    try:
        geometries = _geometry(result.meta["val"]), _geometry(base.meta["val"])
    except Unsupported:
        return False
    dims = (dim for sizes, strides, offset in geometries for dim in (*sizes, *strides, offset))
    return names_in(*dims) <= given


def _geometry(fake: torch.Tensor) -> tuple[tuple[Dim, ...], tuple[Dim, ...], Dim]:
    sizes, strides = tuple(map(dim_from, fake.shape)), tuple(map(dim_from, fake.stride()))
    return sizes, strides, dim_from(fake.storage_offset())


def _view(result: fx.Node, base: fx.Node, number: int, of_argument: bool) -> View:
    fake, of = result.meta["val"], base.meta["val"]
    sizes, strides, offset = _geometry(fake)
    own = floordiv(_geometry(of)[2] * of.dtype.itemsize, fake.dtype.itemsize)
    bits = fake.is_conj(), fake.is_neg()
    return View(number, of_argument, sizes, strides, offset - own, fake.dtype, *bits)

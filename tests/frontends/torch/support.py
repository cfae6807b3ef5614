"""Graphs as PyTorch captures them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any

import torch
import torch._inductor.inductor_prims  # registers prims.fma
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
from hypothesis import Phase, settings
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_utils import SEED

import graphwright as gw
from graphwright.frontends.torch.decompositions import decompositions
from graphwright.frontends.torch.graph import ReadGraph, read_graph
from graphwright.frontends.torch.types import tensor_from

if find_spec("transformers"):
    import_module("transformers.integrations.moe")
else:
    SCHEMA = "(Tensor input, Tensor weight, Tensor offs) -> Tensor"
    torch.library.define("transformers::grouped_mm_fallback", SCHEMA)

    @torch.library.register_fake("transformers::grouped_mm_fallback")
    def _fake(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return input.new_empty(len(input), weight.shape[2])


BOUNDED = settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
"""For tests whose examples take long."""


def captured(function: Callable[..., Any], *tensors: torch.Tensor) -> torch.fx.GraphModule:
    """The graph of ATen operators of a call, whose results are a list."""

    def listed(*given: torch.Tensor) -> list[Any]:
        made = function(*given)
        return list(made) if isinstance(made, tuple | list) else [made]

    trace = make_fx(functionalize(listed), decomposition_table=decompositions(), tracing_mode="fake")
    return trace(*tensors)


def parts_of(name: str) -> tuple[str, str, str]:
    """Namespace, operator and overload of a name under which an import function is registered."""
    first, _, rest = name.partition(".")
    namespace, plain = (
        (first, rest) if first in ("prims", "quantized_decomposed", "transformers") else ("aten", name)
    )
    operator, _, overload = plain.partition(".")
    return namespace, operator, overload or "default"


def samples_of(operator: Any, dtype: torch.dtype, count: int | None = None) -> list[Any]:
    """The first ``count`` sample calls of an operator in PyTorch's database, or all.

    They are those of its own ``sample_inputs``, which reads the source of every frame of the stack for each.
    """
    return list(
        islice(_seeded(operator.sample_inputs_func(operator, "cpu", dtype, requires_grad=False)), count)
    )


def _seeded(samples: Iterable[Any]) -> Iterator[Any]:
    """``samples``, each of the same seed as PyTorch's."""
    left = iter(samples)
    while True:
        torch.default_generator.manual_seed(SEED)
        try:
            yield next(left)
        except StopIteration:
            return


def reading(function: Callable[..., Any], *tensors: torch.Tensor) -> ReadGraph:
    """The result of reading the graph of a call."""
    graph = captured(function, *tensors)
    return read_graph(graph.graph, graph)


def run(made: ReadGraph, *tensors: torch.Tensor, device: str = "reference") -> list[torch.Tensor]:
    """The results of a graph that has been read whole."""
    assert not made.unsupported
    model = gw.compile(made.module, options={"device": device})
    arrays = model(*[each.array(tensors[each.position]) for each in made.interface.inputs])
    return made.interface.results(list(map(tensor_from, arrays)), tensors)

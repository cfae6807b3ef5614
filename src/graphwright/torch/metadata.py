"""Facts from AOTAutograd about the graph that is being compiled."""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType, PlainTensorMeta

_OWN_MEMORY = {OutputType.non_alias, OutputType.unsafe_view_alias, OutputType.custom_function_view}


def parameters() -> frozenset[int]:
    """The inputs of the graph that are parameters or buffers and that it does not change; none while
    gradients are recorded.
    """
    found = _forward_metadata()
    if found is None or torch.is_grad_enabled():
        return frozenset()
    changed = {k for k, info in enumerate(found.input_info) if info.mutates_data}
    return frozenset(found.static_input_indices) - changed


def is_plain() -> bool:
    """Whether the wrappers of AOTAutograd do nothing: the inputs and results of the graph are those of the
    captured function, no input is changed, and no result shares memory with another tensor.
    """
    found = _forward_metadata()
    return (
        found is not None
        and not any(info.mutates_data or info.mutates_metadata for info in found.input_info)
        and all(info.output_type in _OWN_MEMORY for info in found.output_info)
        and not any(info.requires_grad or info.dynamic_dims for info in found.output_info)
        and all(isinstance(meta, PlainTensorMeta) for meta in found.subclass_inp_meta)
        and all(isinstance(meta, PlainTensorMeta) for meta in found.subclass_fw_graph_out_meta)
        and not found.tokens
        and not found.is_rng_op_functionalized
        and found.grad_enabled_mutation is None
    )


def _forward_metadata() -> Any:
    context = torch._guards.TracingContext.try_get()
    return None if context is None else context.fw_metadata

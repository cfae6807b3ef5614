"""PyTorch's transformer layers, which are single operators without gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.torch.support import close, compiled

CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)
PADDING = torch.arange(5) >= torch.tensor([[3], [5]])
MASKS: dict[str, dict[str, torch.Tensor]] = {
    "all": {},
    "causal": {"src_mask": CAUSAL},
    "causal f32": {"src_mask": torch.zeros(5, 5).masked_fill(CAUSAL, -torch.inf)},
    "padding": {"src_key_padding_mask": PADDING},
    "both": {"src_mask": CAUSAL, "src_key_padding_mask": PADDING},
}


def native(module: nn.Module) -> Any:
    return compiled(module.eval(), options={"strict": True})


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer(masks: dict[str, torch.Tensor], norm_first: bool) -> None:
    activation = "gelu" if norm_first else "relu"
    layer = nn.TransformerEncoderLayer(
        12, 2, 7, activation=activation, batch_first=True, norm_first=norm_first
    )
    run, x = native(layer), torch.randn(2, 5, 12)
    with torch.no_grad():
        close(run(x, **masks), layer(x, **masks))


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_attention_with_weights(need_weights: bool, average: bool) -> None:
    layer, x, other = (
        nn.MultiheadAttention(8, 2, batch_first=True),
        torch.randn(2, 5, 8),
        torch.randn(2, 5, 8),
    )
    run = native(layer)
    arguments = {"key_padding_mask": PADDING, "need_weights": need_weights, "average_attn_weights": average}
    with torch.no_grad():
        close(run(x, x, x, **arguments), layer(x, x, x, **arguments))
        close(run(x, other, other, **arguments), layer(x, other, other, **arguments))

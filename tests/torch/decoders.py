"""A small decoder with a static cache of keys and values."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

HEADS, GROUPS, FEATURES, VOCABULARY = 4, 2, 8, 50


def rotated(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of [batch, heads, queries, features] (Su et al., "RoFormer", 2021)."""
    rates = 100.0 ** (-torch.arange(0, FEATURES, 2) / FEATURES)
    angles = (positions[:, None] * rates).repeat(1, 2)
    first, second = x.chunk(2, dim=-1)
    return x * angles.cos() + torch.cat((-second, first), dim=-1) * angles.sin()


class Layer(nn.Module):
    """Attention with grouped heads on its cache, and a gated MLP."""

    def __init__(self, batch: int, capacity: int) -> None:
        super().__init__()
        hidden = HEADS * FEATURES
        self.norms = nn.ModuleList(nn.RMSNorm(hidden) for _ in range(2))
        self.q, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(hidden, GROUPS * FEATURES, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(hidden, 2 * hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * hidden, hidden, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(batch, GROUPS, capacity, FEATURES))

    def forward(self, x: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](x)
        q, k, v = (made(y).unflatten(-1, (-1, FEATURES)).transpose(1, 2) for made in (self.q, self.k, self.v))
        self.keys.index_copy_(2, positions, rotated(k, positions))
        self.values.index_copy_(2, positions, v)
        k, v = (cache.repeat_interleave(HEADS // GROUPS, dim=1) for cache in (self.keys, self.values))
        seen = functional.scaled_dot_product_attention(rotated(q, positions), k, v, mask)
        x = x + self.o(seen.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Tokens [batch, n] and their n positions to the scores of what follows the last of them."""

    def __init__(self, batch: int, capacity: int, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HEADS * FEATURES)
        self.layers = nn.ModuleList(Layer(batch, capacity) for _ in range(layers))
        self.capacity = capacity

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """``hidden``: how many tokens at the front of each row of the batch only fill it up."""
        keys = torch.arange(self.capacity)
        mask = (keys <= positions[:, None]) & (keys >= hidden[:, None, None, None])
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, positions, mask)
        scores: torch.Tensor = functional.linear(x[:, -1], self.embedding.weight)
        return scores

    def generate(self, tokens: torch.Tensor, count: int, hidden: torch.Tensor) -> torch.Tensor:
        """The scores of ``count`` greedy steps behind a prompt, [batch, count, vocabulary]."""
        scores = [self(tokens, torch.arange(tokens.shape[1]), hidden)]
        for k in range(count - 1):
            place = torch.tensor([tokens.shape[1] + k])
            scores.append(self(scores[-1].argmax(-1, keepdim=True), place, hidden))
        return torch.stack(scores, dim=1)

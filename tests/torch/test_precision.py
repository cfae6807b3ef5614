"""Modules in bf16 and f16, autocast, and lower precision on request: how far they are from the f32 module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright import _native

LEAST = 1e-6 if _native.has_bf16() else 0.0
"""An error that only lower precision has."""


class Block(nn.Module):
    """A layer norm, a feed-forward layer and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(96), nn.Linear(96, 200), nn.Linear(200, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return made.softmax(-1) * x.mean()


@pytest.fixture
def block() -> Block:
    torch.manual_seed(0)
    return Block().eval()


def compiled(run: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    made: Callable[..., Any] = torch.compile(run, backend="graphwright", options={"threads": 1, **options})
    return made


def relative(made: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((made.float() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_module_of_16_bits_is_no_farther_from_f32_than_eager(block: Block, dtype: torch.dtype) -> None:
    x = torch.randn(33, 96)
    with torch.no_grad():
        wanted = block(x)
        block.to(dtype)
        made = compiled(block)(x.to(dtype))
        assert made.dtype == dtype
        assert relative(made, wanted) <= 1.2 * relative(block(x.to(dtype)), wanted)
    assert not gw.torch.report()[-1].missing


class Stem(nn.Module):
    """A convolution and a norm over its channels: the convolution becomes a kernel with no epilogue."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 32, 7, 4, 3), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.norm(self.patches(x).permute(0, 2, 3, 1))
        return made.permute(0, 3, 1, 2)


def test_a_convolution_under_autocast_has_no_epilogue_if_only_casts_follow_it() -> None:
    stem, x = Stem().eval(), torch.randn(1, 3, 64, 64)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        wanted, made = stem(x), compiled(stem)(x)
    assert made.dtype == wanted.dtype
    assert relative(made, wanted) < 1e-2


def test_autocast_is_no_farther_from_f32_than_eager(block: Block) -> None:
    def run(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return block(x)

    x = torch.randn(33, 96)
    with torch.no_grad():
        wanted = block(x)
        made = compiled(run)(x)
        assert made.dtype == run(x).dtype
        assert relative(made, wanted) <= 1.2 * relative(run(x), wanted)


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.LayerNorm(8, bias=False), nn.RMSNorm(8)])
def test_norms_with_parameters_of_f32_train_under_autocast(norm: nn.Module) -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), norm, nn.Linear(8, 4)), torch.randn(5, 8)

    def gradients(run: Callable[..., Any], dtype: torch.dtype | None) -> torch.Tensor:
        model.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            made = run(x)
        made.float().square().sum().backward()
        return torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])

    wanted, run = gradients(model, None), compiled(model)
    made = gradients(run, torch.bfloat16)
    assert relative(made, wanted) <= 1.2 * relative(gradients(model, torch.bfloat16), wanted)
    assert not gw.torch.report(run).missing


@pytest.mark.parametrize(
    ("options", "most"),
    [({"precision": "bf16"}, 4e-3), ({"weights": "int8"}, 6e-3), ({"weights": "int4"}, 8e-2)],
)
def test_lower_precision_on_request(block: Block, options: dict[str, str], most: float) -> None:
    x = torch.randn(33, 96)
    with torch.no_grad():
        wanted = block(x)
        made = compiled(block, **options)(x)
    assert made.dtype == torch.float32
    assert LEAST < relative(made, wanted) < most


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_without_instructions_for_bf16_products_are_f32(block: Block, dtype: torch.dtype) -> None:
    x = torch.randn(33, 96)
    with torch.no_grad():
        wanted = block(x)
        block.to(dtype)
        made = compiled(block, isa="v3", precision="bf16")(x.to(dtype))
        most = 1e-5 if dtype == torch.float32 else 1.2 * relative(block(x.to(dtype)), wanted)
    assert relative(made, wanted) < most


class Images(nn.Module):
    """Convolutions, a residual, and poolings."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.pool = nn.Conv2d(3, 32, 3, 2, 1), nn.MaxPool2d(2)
        self.inner, self.down = nn.Conv2d(32, 32, 3, 1, 1), nn.Conv2d(32, 24, 1)
        self.head = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(self.stem(x).relu())
        y = self.down((y + self.inner(y)).relu())
        made: torch.Tensor = self.head(nn.functional.adaptive_avg_pool2d(y, 1).flatten(1))
        return made


@pytest.mark.parametrize(
    ("dtype", "options"), [("bfloat16", {}), ("float16", {}), ("", {"precision": "bf16"})]
)
def test_convolutions_in_16_bits_have_the_error_of_rounded_operands(
    dtype: str, options: dict[str, str]
) -> None:
    torch.manual_seed(1)
    module, x = Images().eval(), torch.randn(2, 3, 33, 40)
    with torch.no_grad():
        wanted = module(x)
        if dtype:
            module, x = module.to(getattr(torch, dtype)), x.to(getattr(torch, dtype))
        made = compiled(module, **options)(x)
        assert made.dtype == x.dtype
        assert LEAST < relative(made, wanted) < (1e-3 if dtype == "float16" else 8e-3)


class Widened(nn.Module):
    """A linear layer as torchao writes it for weights of 8 bits."""

    def __init__(self, n: int, k: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (n, k), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(n) * 0.01)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.t().to(x.dtype) * self.scale.to(x.dtype)


class Grouped(nn.Module):
    """A linear layer with a scale and a zero point for each group, of this many bits."""

    def __init__(self, n: int, k: int, groups: int, bits: int) -> None:
        super().__init__()
        end = 1 << bits - 1
        self.register_buffer("weight", torch.randint(-end, end, (n, k), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(n, groups) * 0.1)
        self.register_buffer("zero", torch.randint(-end, end, (n, groups), dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, k, groups = *self.weight.shape, self.scale.shape[1]
        w = self.weight.view(n, groups, k // groups).to(x.dtype)
        shifted = w - self.zero.view(n, groups, 1).to(x.dtype)
        made = (shifted * self.scale.view(n, groups, 1).to(x.dtype)).view(n, k)
        return nn.functional.linear(x, made)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Widened(50, 70),
        lambda: Grouped(50, 96, 3, 4),
        lambda: Grouped(50, 70, 1, 8),
        lambda: Grouped(48, 64, 4, 2),
        lambda: Grouped(50, 72, 3, 4),
    ],
    ids=[
        "int8",
        "int4 in groups of 32",
        "int8 by column",
        "int2 in groups of 16",
        "groups of 24 are no blocks",
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_integer_weights_give_the_product_in_f64(make: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    module = make().eval()
    k = module.weight.shape[1]
    x = torch.randn(7, k).to(dtype)
    with torch.no_grad():
        wanted = module(x.double())
        made = compiled(module)(x)
    assert made.dtype == dtype
    assert relative(made, wanted.float()) < (1e-5 if dtype == torch.float32 else 1e-2)


def test_packed_int8_product() -> None:
    torch.manual_seed(3)
    w, scales = torch.randint(-128, 128, (32, 64), dtype=torch.int8), torch.rand(32).bfloat16()
    x = torch.randn(5, 64).bfloat16()

    def run(x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch.ops.aten._weight_int8pack_mm(x, w, scales)
        return made

    with torch.no_grad():
        wanted = (x.double() @ w.double().t() * scales.double()).float()
        assert relative(compiled(run)(x), wanted) < 1e-2
    assert not gw.torch.report()[-1].missing


@pytest.mark.parametrize(
    ("dtype", "options"), [("bfloat16", {}), ("float16", {}), ("", {"precision": "bf16"})]
)
def test_attention_in_16_bits_has_the_error_of_rounded_operands(dtype: str, options: dict[str, str]) -> None:
    torch.manual_seed(4)
    module, x = nn.TransformerEncoderLayer(64, 4, 100, batch_first=True).eval(), torch.randn(2, 37, 64)

    def run(x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = module.self_attn(x, x, x, need_weights=False)[0]
        return made

    with torch.no_grad():
        wanted = run(x)
        if dtype:
            module.to(getattr(torch, dtype))
            x = x.to(getattr(torch, dtype))
        made = compiled(run, **options)(x)
        assert made.dtype == x.dtype
        assert LEAST < relative(made, wanted) < (2e-3 if dtype == "float16" else 1.5e-2)
    assert not gw.torch.report()[-1].missing

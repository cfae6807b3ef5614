"""Gradients are native: whole backward graphs, whose gradients are those of eager mode."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import hessian, jacfwd, jacrev
from torch.nn import functional

from graphwright.torch import report
from tests.torch.support import compiled

IMAGE, SIGNAL = (2, 6, 11, 9), (3, 4, 23)
CONVOLUTIONS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "3x3": (nn.Conv2d(6, 8, 3, padding=1), IMAGE),
    "1x1": (nn.Conv2d(6, 5, 1, bias=False), IMAGE),
    "strides": (nn.Conv2d(6, 4, (3, 2), stride=(2, 3), padding=(2, 1)), IMAGE),
    "a stride larger than the kernel": (nn.Conv2d(6, 4, 2, stride=3), IMAGE),
    "dilations": (nn.Conv2d(6, 4, 3, dilation=(2, 3), padding=1), IMAGE),
    "groups": (nn.Conv2d(6, 9, 3, groups=3, padding=1), IMAGE),
    "depthwise": (nn.Conv2d(6, 12, 5, groups=6, padding=2), IMAGE),
    "padding beyond the window": (nn.Conv2d(6, 4, 1, padding=1), IMAGE),
    "1-D": (nn.Conv1d(4, 6, 5, padding=2), SIGNAL),
    "1-D with strides": (nn.Conv1d(4, 6, 4, stride=4), SIGNAL),
    "3-D": (nn.Conv3d(2, 3, (2, 3, 3), stride=(1, 2, 1), padding=1), (1, 2, 4, 7, 6)),
    "transposed": (nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1), IMAGE),
    "transposed, groups": (nn.ConvTranspose2d(6, 4, 3, groups=2, dilation=2), IMAGE),
    "transposed, 1-D": (nn.ConvTranspose1d(4, 6, 4, stride=3), SIGNAL),
}


def gradients(run: Any, module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """The gradients of the input and of the parameters."""
    x = x.detach().clone().requires_grad_()
    run(x).sin().sum().backward()
    assert x.grad is not None
    made = [each.grad for each in module.parameters()]
    return [x.grad, *(each for each in made if each is not None)]


def assert_trains_natively(module: nn.Module, x: torch.Tensor, **how: Any) -> None:
    """The compiled module has the gradients of eager mode, and PyTorch runs no operator of its graphs."""
    other = copy.deepcopy(module)
    run = compiled(other, **how)
    found, expected = gradients(run, other, x), gradients(module, module, x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    graphs = report(run).graphs
    assert {graph.kind for graph in graphs} == {"forward", "backward"}
    assert not [each for graph in graphs for each in graph.missing]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_of_convolutions(name: str) -> None:
    torch.manual_seed(0)
    module, shape = CONVOLUTIONS[name]
    assert_trains_natively(module, torch.randn(shape))


def test_gradients_of_convolutions_of_any_batch_and_size() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 3, padding=1))
    for shape in ((2, 3, 9, 12), (5, 3, 10, 7)):
        other = copy.deepcopy(module)
        run = compiled(other, dynamic=True)
        found, expected = (
            gradients(each, own, torch.ones(shape)) for each, own in ((run, other), (module, module))
        )
        module.zero_grad()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_gradients_of_convolutions_in_f64() -> None:
    torch.manual_seed(0)
    module = nn.Conv2d(3, 4, 3, padding=1).double()
    assert_trains_natively(module, torch.randn(2, 3, 6, 5, dtype=torch.float64))


@pytest.mark.parametrize(("pixels", "in_pytorch"), [(7, True), (40, False)])
def test_gradients_of_few_pixels_of_many_channels_stay_with_pytorch(pixels: int, in_pytorch: bool) -> None:
    run = compiled(nn.Conv2d(128, 128, 1))
    run(torch.randn(1, 128, pixels, pixels)).sum().backward()
    reasons = {each.reason for graph in report(run).graphs for each in graph.missing}
    assert reasons == (
        {"PyTorch's kernels are faster for few pixels of many channels"} if in_pytorch else set()
    )


def test_frozen_weights_need_no_gradient() -> None:
    torch.manual_seed(0)
    module = nn.Conv2d(3, 4, 3, padding=1)
    module.weight.requires_grad_(requires_grad=False)
    assert_trains_natively(module, torch.randn(2, 3, 6, 5))
    assert module.weight.grad is None


class Attends(nn.Module):
    """Self-attention of one projection."""

    def __init__(self, causal: bool = False, mask: torch.Tensor | None = None) -> None:
        super().__init__()
        self.projection = nn.Linear(16, 48)
        self.causal, self.mask = causal, mask

    def forward(self, x: torch.Tensor) -> Any:
        q, k, v = self.projection(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        return functional.scaled_dot_product_attention(q, k, v, self.mask, is_causal=self.causal)


@pytest.mark.parametrize(
    ("causal", "length", "mask"),
    [
        (False, 7, None),
        (True, 7, None),
        (True, 300, None),  # several blocks of queries
        (False, 5, torch.tensor([[True, True, False, True, False]] * 5)),
        (False, 5, torch.linspace(-1, 1, 50).reshape(2, 1, 5, 5)),
        (False, 5, torch.tensor([0, -1, 0.5, -torch.inf, 0]).reshape(1, 1, 1, 5).expand(2, 2, 1, 5)),
    ],
)
def test_gradients_of_attention(causal: bool, length: int, mask: torch.Tensor | None) -> None:
    torch.manual_seed(0)
    assert_trains_natively(Attends(causal, mask), torch.randn(2, length, 16))


def test_gradients_of_cross_attention() -> None:
    class Crosses(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return functional.scaled_dot_product_attention(x[:, :3], x, x.cos(), scale=0.7)

    torch.manual_seed(0)
    assert_trains_natively(
        Crosses(), torch.randn(2, 5, 9, 8).transpose(1, 2).contiguous().transpose(1, 2)[:, :3]
    )


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_attention_whose_queries_share_keys(causal: bool) -> None:
    class Groups(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.projection = nn.Linear(16, 80)

        def forward(self, x: torch.Tensor) -> Any:
            heads = self.projection(x).unflatten(-1, (10, 8)).transpose(1, 2)
            q, k, v = heads.split([6, 2, 2], 1)
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    torch.manual_seed(0)
    assert_trains_natively(Groups(), torch.randn(2, 200, 16))


def test_a_query_that_sees_no_key_gives_zeros_in_training() -> None:
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[2] = False
    module, x = Attends(mask=mask), torch.randn(2, 5, 16, requires_grad=True)
    result = compiled(module)(x)
    torch.testing.assert_close(result, module(x), rtol=1e-4, atol=1e-5)
    assert not result[:, :, 2].any()


def test_attention_in_bf16_trains() -> None:
    torch.manual_seed(0)
    module, x = Attends(causal=True).bfloat16(), torch.randn(2, 9, 16, dtype=torch.bfloat16)
    wide = copy.deepcopy(module).float()
    expected = gradients(wide, wide, x.float())
    for found, each in zip(gradients(compiled(module), module, x), expected, strict=True):
        torch.testing.assert_close(found.float(), each, rtol=0.05, atol=0.05 * float(each.abs().max()))


def test_attention_of_dynamic_lengths_trains_in_pytorch() -> None:
    """The memory of its scores would have no bound."""
    run = compiled(Attends(), dynamic=True)
    run(torch.randn(2, 7, 16)).sum().backward()
    reasons = {each.reason for graph in report(run).graphs for each in graph.missing}
    assert reasons == {"the numbers of queries and keys are not known"}


@pytest.mark.parametrize("dim", [0, 1, None])
def test_gradients_of_weight_norm(dim: int | None) -> None:
    torch.manual_seed(0)
    module = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3, padding=1), dim=dim)
    assert_trains_natively(module, torch.randn(2, 4, 11))


POOLS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "average": (nn.AvgPool2d(2), IMAGE),
    "average of overlapping windows": (nn.AvgPool2d(3, 2, 1), IMAGE),
    "average without padding": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
    "average, ceil": (nn.AvgPool2d((3, 2), 2, 1, ceil_mode=True), IMAGE),
    "average, divisor": (nn.AvgPool2d(3, 3, divisor_override=5), IMAGE),
    "average, 1-D": (nn.AvgPool1d(4, 3), SIGNAL),
    "average, 3-D": (nn.AvgPool3d(2, (1, 2, 2)), (1, 2, 4, 7, 6)),
    "average without batch": (nn.AvgPool2d(2), (3, 6, 8)),
    "global": (nn.AdaptiveAvgPool2d(1), IMAGE),
    "adaptive": (nn.AdaptiveAvgPool2d((4, 3)), IMAGE),
    "adaptive, more results than elements": (nn.AdaptiveAvgPool2d((13, 9)), IMAGE),
    "adaptive, 3-D": (nn.AdaptiveAvgPool3d((2, 7, 1)), (1, 2, 4, 7, 6)),
    "maximum, 3-D": (nn.MaxPool3d(2, 1), (1, 2, 4, 7, 6)),
    "adaptive maximum": (nn.AdaptiveMaxPool2d((4, 2)), IMAGE),
    "adaptive maximum, 3-D": (nn.AdaptiveMaxPool3d((2, 3, 4)), (1, 2, 4, 7, 6)),
    "replication": (nn.ReplicationPad2d((2, 1, 0, 3)), IMAGE),
    "replication and cropping": (nn.ReplicationPad2d((-1, 2, 1, -2)), IMAGE),
    "replication of single elements": (nn.ReplicationPad1d(2), (2, 3, 1)),
    "replication, 3-D": (nn.ReplicationPad3d(1), (1, 2, 2, 3, 2)),
}


@pytest.mark.parametrize("name", POOLS)
def test_gradients_of_pooling_and_padding(name: str) -> None:
    torch.manual_seed(0)
    module, shape = POOLS[name]
    assert_trains_natively(module, torch.randn(shape))


def test_gradients_of_rows_that_a_mask_places() -> None:
    """As in models that place the embeddings of images among those of words."""

    class Places(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.images = nn.Linear(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = torch.tensor([False, True, True, False, True]).unsqueeze(-1)
            return x.masked_scatter(mask, self.images(x.detach()[..., :3].flip(0)).reshape(-1, 4))

    torch.manual_seed(0)
    assert_trains_natively(Places(), torch.randn(2, 5, 4))


class Bags(nn.Module):
    """Embedding bags of different sizes, one of them empty."""

    def __init__(self, mode: str, weighted: bool, padding: int | None, last: bool) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(7, 4, mode=mode, padding_idx=padding, include_last_offset=last)
        offsets = [0, 3, 3, 8, 11] if last else [0, 3, 3, 8]
        self.register_buffer("offsets", torch.tensor(offsets))
        self.register_buffer("indices", torch.tensor([1, 4, 4, 0, 2, 6, 2, 2, 5, 4, 0]))
        self.weighted = weighted

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = self.table(self.indices, self.offsets, x if self.weighted else None)
        return given * x.sum()


@pytest.mark.parametrize(("mode", "weighted"), [("sum", False), ("sum", True), ("mean", False)])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("last", [False, True])
def test_gradients_of_embedding_bags(mode: str, weighted: bool, padding: int | None, last: bool) -> None:
    torch.manual_seed(0)
    assert_trains_natively(Bags(mode, weighted, padding, last), torch.randn(11))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_gradients_of_distances(p: float) -> None:
    class Distances(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cdist(x, x[:, :3] * 2, p).sum() + functional.pdist(x[0], p).sum()

    torch.manual_seed(0)
    assert_trains_natively(Distances(), torch.randn(2, 5, 4))


@pytest.mark.parametrize("transform", [jacfwd, jacrev, hessian])
def test_derivatives_of_torch_func_are_native(transform: Any) -> None:
    torch.manual_seed(0)
    weights, x = torch.randn(5, 4), torch.randn(4)
    derivative = transform(lambda each: torch.softmax(weights @ each, 0))
    run = compiled(derivative)
    torch.testing.assert_close(run(x), derivative(x), rtol=1e-5, atol=1e-6)
    assert not [each for graph in report(run).graphs for each in graph.missing]

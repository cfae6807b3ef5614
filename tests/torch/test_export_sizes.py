"""Modules whose exported programs have dynamic or data-dependent sizes, compared with PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import graphwright as gw
from graphwright.frontends.torch.compositions import COMPOSITIONS
from tests.torch.support import Applies, close


def test_dynamic_sizes_have_the_names_of_their_dims() -> None:
    class Halves(nn.Module):
        def forward(self, parts: Any, y: torch.Tensor) -> torch.Tensor:
            return parts["x"][0] + y[::2]

    rows = Dim("rows", max=20)
    dynamic = {"parts": {"x": [{0: rows}]}, "y": {0: 2 * rows}}
    model = gw.compile(Halves(), ({"x": [torch.ones(4, 2)]}, torch.ones(8, 2)), dynamic_shapes=dynamic)
    assert [spec.shape for spec in model.inputs] == [("rows", 2), ("2*rows", 2)]
    x, y = torch.randn(3, 2), torch.randn(6, 2)
    close(model({"x": [x]}, y), x + y[::2])
    with pytest.raises(gw.FeedError):
        model({"x": [x]}, torch.randn(5, 2))


def test_files_of_programs_have_sizes_that_depend_on_others(tmp_path: Path) -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y[1::2]

    rows = Dim("rows", min=2, max=20)
    examples = (torch.ones(4, 2), torch.ones(8, 2))
    program = torch.export.export(Halves(), examples, dynamic_shapes={"x": {0: rows}, "y": {0: 2 * rows}})
    torch.export.save(program, tmp_path / "m.pt2")
    for source in (tmp_path / "m.pt2", torch.export.load(tmp_path / "m.pt2")):
        x, y = torch.randn(3, 2), torch.randn(6, 2)
        close(gw.compile(source)(x, y), x + y[1::2])


BRANCHES: dict[str, tuple[Callable[[torch.Tensor], Any], int, int, int]] = {
    "even": (lambda x: x.view(-1, 2, 4) + 1 if x.shape[0] % 2 == 0 else x * 5, 8, 2, 7),
    "odd": (lambda x: x.view(-1, 2, 4) + 1 if x.shape[0] % 2 == 0 else x * 5, 7, 5, 8),
    "taller than wide": (lambda x: x.sum(0) if x.shape[0] > x.shape[1] else x.sum(1), 7, 5, 3),
    "specialized by PyTorch": (lambda x: x[: int(x.shape[0] / 2)] + 1, 8, 9, 12),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_sizes_that_take_another_branch_are_rejected(name: str) -> None:
    """The program has the branch of the example; the last size takes another branch."""
    function, example, same, other = BRANCHES[name]
    module = Applies(function)
    model = gw.compile(module, (torch.randn(example, 4),), dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
    for rows in (example, same):
        x = torch.randn(rows, 4)
        close(model(x), module(x))
    with pytest.raises(gw.FeedError, match="a branch in forward that depends on sizes"):
        model(torch.randn(other, 4))


def test_sizes_that_a_decomposition_does_not_keep_dynamic_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results for other sizes would be those of the example."""

    def mode(x: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
        return x.sum(dim), torch.full((int(x.shape[0]),), int(x.shape[0]))

    monkeypatch.setitem(COMPOSITIONS, torch.ops.aten.mode.default, mode)
    module, dynamic = Applies(lambda x: torch.mode(x, 1)), {"x": {0: Dim.AUTO}}
    model = gw.compile(module, (torch.randn(5, 4),), dynamic_shapes=dynamic)
    assert model(torch.ones(5, 4))[1].tolist() == [5] * 5
    with pytest.raises(gw.FeedError, match="must be 5"):
        model(torch.ones(6, 4))


DYNAMIC: dict[str, Callable[[torch.Tensor], Any]] = {
    **{
        f"resized by {scale}, {mode}": partial(nn.functional.interpolate, scale_factor=scale, mode=mode)
        for scale in (2.0, 1.7, 0.5, 1 / 3)
        for mode in ("nearest", "bilinear")
    },
    "resized by its own sizes": partial(
        nn.functional.interpolate, scale_factor=1.5, mode="bilinear", recompute_scale_factor=True
    ),
    "part, rounded down": lambda x: x[..., : math.floor(x.shape[3] * 0.3)] + 1,
    "part, rounded up": lambda x: x[..., : math.ceil(x.shape[3] * 0.3)] + 1,
    "averages of windows": partial(nn.functional.adaptive_avg_pool2d, output_size=(2, 3)),
    "averages of windows longer than the axis": partial(
        nn.functional.adaptive_avg_pool2d, output_size=(20, 1)
    ),
    "largest of all": partial(nn.functional.adaptive_max_pool2d, output_size=1, return_indices=True),
    "variance": lambda x: (x.var(3), x.std((0, 2, 3)), torch.var_mean(x, 2, correction=0)),
    "averages of windows with a divisor": lambda x: nn.functional.avg_pool2d(
        x.permute(2, 3, 0, 1), (1, 2), padding=(0, 1), divisor_override=3
    ),
    "windows": lambda x: (x.unfold(3, 4, 2) + 1, x.unfold(-2, 1, 3) * 2),
    "positions among sorted elements": lambda x: (
        torch.searchsorted(x[0, 0].sort()[0], x[0, 1], right=True),
        torch.bucketize(x, x[0, 0, 0].sort()[0]),
    ),
    "most frequent elements": lambda x: (
        torch.mode(x.round(), 3)[0],
        x.round().gather(3, torch.mode(x.round(), 3, keepdim=True)[1]),
    ),
    "medians": lambda x: (
        x.median(2)[0],
        x.nanmedian(3)[0],
        x.kthvalue(2, 3)[0],
        x.unfold(3, 3, 1).median(-1)[0],
    ),
    "running extremes and sums": lambda x: (x.cummax(2), x.cummin(3), x.logcumsumexp(3)),
    "quotients and roots of sizes": lambda x: (
        x / x.shape[3] ** 0.5,
        (x > 0) * (1 / x.shape[2]),
        x.abs() ** (x.shape[3] / 4) + x.sum().item() / x.shape[2],
        x.clamp(max=x.shape[2] / 20),
    ),
    "a tensor of a quotient": lambda x: x.new_full((3,), -abs(x.shape[3] / 4)),
    "factors": lambda x: torch.baddbmm(
        torch.add(x[0], x[0], alpha=x.shape[3]), x[0], x[0].mT @ x[0], alpha=x.shape[2] / 4, beta=x.shape[3]
    ),
}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.permute(2, 0, 1).reshape(-1, 4) + 1,
        lambda x: nn.functional.scaled_dot_product_attention(
            *x.view(*x.shape[:2], 3, 2, 2).permute(2, 0, 3, 1, 4), is_causal=True
        ).transpose(1, 2).flatten(2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 1), (4, 4)])
def test_the_way_in_which_pytorch_reshapes_is_no_assumption(
    function: Callable[[torch.Tensor], Any], sizes: tuple[int, int]
) -> None:
    dynamic = {"x": {0: Dim("batch"), 1: Dim("tokens")}}
    model = gw.compile(Applies(function), (torch.randn(5, 6, 12),), dynamic_shapes=dynamic)
    x = torch.randn(*sizes, 12)
    close(model(x), function(x))


@pytest.mark.parametrize("name", DYNAMIC)
def test_operators_on_dynamic_sizes(name: str) -> None:
    module = Applies(DYNAMIC[name])
    dynamic = {"x": {2: Dim.AUTO, 3: Dim.AUTO}}
    model = gw.compile(module, (torch.randn(1, 2, 12, 9),), dynamic_shapes=dynamic)
    for rows, columns in ((12, 9), (17, 10), (5, 31)):
        x = torch.randn(1, 2, rows, columns)
        close(model(x), module(x))


def _filled(x: torch.Tensor) -> Any:
    y, z = x.clone(), x.clone()
    y[x > 0] = 3.0
    z[(x > 0).all(-1)] = 1.0
    return y, z


def _doubled(x: torch.Tensor) -> Any:
    y, mask = x.clone(), x > 0
    y[mask] = x[mask] * 2
    return y


def _bins(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int64).abs().reshape(-1)


SELECTIONS = {
    "distinct": lambda x: torch.unique(x.round(), return_inverse=True, return_counts=True),
    "runs": lambda x: torch.unique_consecutive(x.round(), return_inverse=True, return_counts=True),
    "NaN is distinct": lambda x: torch.unique((x - 1).sqrt(), return_counts=True)[1],
    "repeated": lambda x: torch.repeat_interleave(x, _bins(x[:, 0]), 0) * 2,
    "repeated to a known size": lambda x: torch.repeat_interleave(
        x, (torch.arange(5) + x[0, 0].to(torch.int64)) % 5, 0, output_size=10
    ),
    "counted": lambda x: (torch.bincount(_bins(x)), torch.bincount(_bins(x), minlength=4)),
    "weights counted": lambda x: (
        torch.bincount(_bins(x), x.reshape(-1)),
        torch.bincount(_bins(x), _bins(x)),
    ),
    "mask": lambda x: (x[x > 0], x[x > 0].sum()),
    "rows": lambda x: x[(x > 0).any(-1)] @ x.T,
    "nonzero": lambda x: (torch.nonzero(x > 0), torch.where(x > 1)),
    "select": lambda x: torch.masked_select(x, x > 0) + 1,
    "filled": _filled,
    "doubled": _doubled,
    "counts": lambda x: (torch.nonzero(x > 0).shape[0], x[x > 0].shape[0] * 2),
    "made": lambda x: torch.zeros(x[x > 0].shape[0]).sum() + torch.arange(torch.nonzero(x).shape[0]).sum(),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_data_dependent_sizes(name: str) -> None:
    module = Applies(SELECTIONS[name])
    model = gw.compile(module, (torch.randn(5, 4),))
    for x in (torch.randn(5, 4), -torch.ones(5, 4), torch.ones(5, 4)):
        close(model(x), module(x))


def test_channels_last_is_pooled_to_one_element_for_any_batch() -> None:
    """PyTorch gives the result the strides of channels_last with as_strided, whose sizes are dynamic."""

    class Pool(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), 1).flatten(1)

    model = gw.compile(Pool(), (torch.rand(2, 4, 4, 3),), dynamic_shapes={"x": {0: Dim("batch", max=8)}})
    x = torch.rand(5, 4, 4, 3)
    close(model(x), x.mean((1, 2)))

"""Grouped matrix multiplications: PyTorch's operator, and that of transformers for other dtypes."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from graphwright.ops.core.grouped_matmul import GroupedMatMul
from tests.frontends.torch.support import BOUNDED, reading, run

SIZES = st.lists(st.sampled_from([0, 1, 2, 5, 20]), min_size=1, max_size=4)


def operands(sizes: list[int], k: int, n: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(sum(sizes))
    a, b = torch.randn(sum(sizes), k), torch.randn(len(sizes), k, n)
    return a.to(dtype), b.to(dtype), torch.tensor(sizes).cumsum(0).to(torch.int32)


def expected(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    groups = pairwise([0, *ends.tolist()])
    parts = [a[begin:end].double() @ b[g].double() for g, (begin, end) in enumerate(groups)]
    return torch.cat(parts).to(a.dtype)


@BOUNDED
@given(SIZES, st.sampled_from([8, 24]), st.sampled_from([8, 56]))
def test_grouped_mm_becomes_one_grouped_product(sizes: list[int], k: int, n: int) -> None:
    given = operands(sizes, k, n, torch.bfloat16)
    graph = reading(lambda a, b, ends: torch.nn.functional.grouped_mm(a, b, offs=ends), *given)
    assert any(isinstance(node.op, GroupedMatMul) for node in graph.module.graphs["main"])
    torch.testing.assert_close(run(graph, *given), [expected(*given)])


@BOUNDED
@given(
    SIZES, st.sampled_from([1, 7]), st.sampled_from([1, 50]), st.sampled_from([torch.float32, torch.float64])
)
def test_operator_of_transformers(sizes: list[int], k: int, n: int, dtype: torch.dtype) -> None:
    given = operands(sizes, k, n, dtype)
    graph = reading(torch.ops.transformers.grouped_mm_fallback.default, *given)
    torch.testing.assert_close(run(graph, *given), [expected(*given)], rtol=1e-5, atol=1e-5)


def test_batches_of_matrices_have_no_ends() -> None:
    a, b = torch.randn(3, 8, 16).bfloat16(), torch.randn(3, 16, 8).bfloat16()
    graph = reading(torch.nn.functional.grouped_mm, a, b)
    torch.testing.assert_close(run(graph, a, b), [torch.bmm(a, b)], rtol=2e-2, atol=2e-2)


def test_groups_of_columns_are_left_to_pytorch() -> None:
    a, b = torch.randn(2, 8, 16).bfloat16(), torch.randn(16, 24).bfloat16()
    ends = torch.tensor([8, 24], dtype=torch.int32)
    graph = reading(lambda a, b, ends: torch.nn.functional.grouped_mm(a, b, offs=ends), a, b, ends)
    assert "grouped_mm of operands with 3 and 2 axes" in str(list(graph.unsupported.values()))

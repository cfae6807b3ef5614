"""Operators that are composed of others, over shapes and dtypes, compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.frontends.torch.support import BOUNDED, captured, reading, run

aten = torch.ops.aten
SIZES = st.sampled_from((1, 2, 3, 5, 7, 13))
DTYPES = st.sampled_from((torch.float32, torch.int64, torch.float64, torch.int32))
REDUCTIONS = st.sampled_from(("sum", "prod", "mean", "amax", "amin"))
SEEDS = st.integers(0, 2**31)


def equal(function: Callable[..., Any], *tensors: torch.Tensor) -> None:
    expected = function(*tensors)
    expected = list(expected) if isinstance(expected, tuple | list) else [expected]
    made = run(reading(function, *tensors), *tensors)
    torch.testing.assert_close(made, expected, equal_nan=True, rtol=1e-5, atol=1e-5)


def filled(shape: tuple[int, ...], dtype: torch.dtype, seed: int, nan: bool = False) -> torch.Tensor:
    """Different numbers, so that places are determined; of floats some are NaN."""
    torch.manual_seed(seed)
    count = torch.Size(shape).numel()
    x = (torch.randperm(count) - count // 2).reshape(shape).to(dtype)
    return torch.where(torch.rand(shape) < 0.2, torch.nan, x) if nan and dtype.is_floating_point else x


@BOUNDED
@given(SIZES, SIZES, st.integers(-2, 1), DTYPES, st.booleans(), st.booleans(), SEEDS)
def test_order_statistics_equal_pytorch(
    rows: int, columns: int, dim: int, dtype: torch.dtype, nan: bool, keepdim: bool, seed: int
) -> None:
    x = filled((rows, columns), dtype, seed, nan)
    k = (x.shape[dim] + 1) // 2
    equal(lambda x: torch.kthvalue(x, k, dim, keepdim)[0], x)
    equal(torch.median, x)
    equal(torch.nanmedian, x)
    equal(lambda x: torch.nanmedian(x, dim, keepdim)[0], x)
    equal(lambda x: torch.median(x, dim, keepdim), filled((rows, columns), dtype, seed))
    equal(lambda x: torch.mode(x % 3, dim, keepdim)[0], filled((rows, columns), dtype, seed))


@BOUNDED
@given(SIZES, SIZES, st.integers(-2, 1), DTYPES, st.booleans(), SEEDS)
def test_scans_equal_pytorch(
    rows: int, columns: int, dim: int, dtype: torch.dtype, nan: bool, seed: int
) -> None:
    x = filled((rows, columns), dtype, seed, nan)
    equal(lambda x: torch.cummax(x, dim), x)
    equal(lambda x: torch.cummin(x % 4, dim), x)
    if dtype.is_floating_point:
        equal(lambda x: torch.logcumsumexp(x, dim), x)


@BOUNDED
@given(st.integers(0, 17), SIZES, DTYPES, st.booleans(), st.booleans(), SEEDS)
def test_sorting_and_searching_equal_pytorch(
    size: int, count: int, dtype: torch.dtype, right: bool, narrow: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    boundaries = torch.randint(-9, 9, (size,)).to(dtype).sort()[0]
    x = torch.randint(-9, 9, (count, 3)).to(dtype)
    equal(lambda x, b: torch.bucketize(x, b, out_int32=narrow, right=right), x, boundaries)
    rows = torch.randint(-9, 9, (count, size)).to(dtype)
    order = rows.argsort(dim=1)
    equal(lambda b, x, s: torch.searchsorted(b, x, side="right", sorter=s), rows, x, order)
    equal(lambda b: torch.searchsorted(b, 1), boundaries)


@BOUNDED
@given(SIZES, SIZES, st.integers(0, 1), DTYPES, REDUCTIONS, st.booleans(), SEEDS)
def test_scattering_equals_pytorch(
    rows: int, columns: int, dim: int, dtype: torch.dtype, reduce: str, include_self: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    x = torch.randint(-3, 4, (rows, columns)).to(dtype)
    src = torch.randint(-3, 4, (rows, columns)).to(dtype)
    index = torch.randint(0, x.shape[dim], (rows, columns))
    equal(lambda x, i, s: x.scatter_reduce(dim, i, s, reduce, include_self=include_self), x, index, src)
    if reduce != "sum":
        equal(
            lambda x, i, s: x.index_reduce(dim, i, s, reduce, include_self=include_self),
            x, index.reshape(-1)[: x.shape[dim]], src,
        )  # fmt: skip
    mask = torch.rand(rows, columns) < 0.5
    equal(torch.masked_scatter, x, mask, src)
    equal(lambda x, i, s: x.put(i, s, accumulate=True), x, index, src)
    offset = seed % (rows + columns - 1) - rows + 1
    equal(lambda x, s: torch.diagonal_scatter(x, s, offset), x, src.diagonal(offset).clone())


@BOUNDED
@given(SIZES, SIZES, st.sampled_from((0.0, 1.0, 2.0, 3.5, float("inf"))), SEEDS)
def test_distances_equal_pytorch(rows: int, columns: int, p: float, seed: int) -> None:
    torch.manual_seed(seed)
    a, b = torch.randn(2, rows, columns), torch.randn(2, 3, columns)
    equal(lambda a, b: torch.cdist(a, b, p), a, b)
    equal(lambda a: torch.pdist(a[0], p), a)


@BOUNDED
@given(SIZES, SIZES, st.integers(1, 6), st.integers(1, 6), st.integers(0, 2), st.booleans(), SEEDS)
def test_pooling_and_resizing_equal_pytorch(
    height: int, width: int, rows: int, columns: int, padding: int, ceil_mode: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    x = torch.randn(2, 3, height, width)
    equal(lambda x: torch.nn.functional.adaptive_max_pool2d(x, (rows, columns), return_indices=True), x)
    smooth = (rows, columns + 1)  # PyTorch's own result for one column differs from that for its rows
    for mode in ("bilinear", "bicubic"):
        equal(lambda x, mode=mode: torch.nn.functional.interpolate(x, smooth, mode=mode, antialias=True), x)
    kernel = (rows, columns)
    if all(
        size + 2 * padding >= k and 2 * padding <= k for size, k in zip((height, width), kernel, strict=True)
    ):
        equal(
            lambda x: torch.nn.functional.avg_pool2d(
                x, kernel, 2, padding, ceil_mode=ceil_mode, divisor_override=3
            ),
            x,
        )


@BOUNDED
@given(SIZES, st.sampled_from(("sum", "mean", "max")), st.booleans(), SEEDS)
def test_embedding_bags_equal_pytorch(bags: int, mode: str, padded: bool, seed: int) -> None:
    torch.manual_seed(seed)
    weight, indices = torch.randn(7, 5), torch.randint(0, 7, (11,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.randint(0, 12, (bags - 1,)).sort()[0]])
    padding = 2 if padded else None
    equal(
        lambda i, w, o: torch.nn.functional.embedding_bag(i, w, o, mode=mode, padding_idx=padding),
        indices, weight, offsets,
    )  # fmt: skip


@pytest.mark.parametrize("size", [0, 3, 20])
def test_nonzero_with_a_size(size: int) -> None:
    x = torch.tensor([[0.0, 1.0, 2.0], [0.0, 0.0, -1.0]])
    equal(lambda x: torch.ops.aten.nonzero_static(x, size=size, fill_value=-7), x)


def test_histograms_equal_pytorch() -> None:
    x = torch.tensor([[-1.0, 0.0, 0.5, 1.0], [2.5, 3.0, 9.0, 10.0]])
    equal(lambda x: torch.histc(x, 7), x)
    equal(lambda x: torch.histc(x, 5, 0, 9), x)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_an_axis_that_keeps_its_size_is_not_smoothed(mode: str) -> None:
    x = filled((1, 2, 7, 20), torch.float32, 0)
    equal(lambda x: torch.nn.functional.interpolate(x, scale_factor=1.1, mode=mode, antialias=True), x)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resized_bytes_are_rounded(mode: str) -> None:
    """Results may differ by one: PyTorch resizes bytes with integer weights, and rounds integer sums, which
    have no ties.
    """
    x = torch.from_numpy(np.random.default_rng(0).choice([0, 5, 90, 255], (1, 2, 9, 7)).astype(np.uint8))

    def resize(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, (13, 5), mode=mode)

    (made,) = run(reading(resize, x), x)
    difference = made.int() - resize(x).int()
    assert made.dtype == torch.uint8 and difference.abs().max() <= 1
    assert difference.float().mean().abs() < 0.2


@pytest.mark.parametrize("default", [torch.float16, torch.float32])
def test_weights_of_windows_have_the_precision_of_the_elements(default: torch.dtype) -> None:
    x = filled((1, 2, 7, 20), torch.float64, 0)
    functions: list[Callable[..., torch.Tensor]] = [lambda x: aten._adaptive_avg_pool2d(x, [3, 9])]
    functions += [
        lambda x, mode=mode: torch.nn.functional.interpolate(x, (5, 33), mode=mode, antialias=True)
        for mode in ("bilinear", "bicubic")
    ]
    torch.set_default_dtype(default)
    try:
        for function in functions:
            made = run(reading(function, x), x)
            torch.testing.assert_close(made, [function(x)], rtol=1e-12, atol=1e-12)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("n", [1, 4, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fourier_frequencies_equal_pytorch(n: int, dtype: torch.dtype) -> None:
    x = torch.ones(1, dtype=dtype)
    equal(lambda x: x * torch.fft.fftfreq(n, 0.3, dtype=dtype), x)
    equal(lambda x: x * torch.fft.rfftfreq(n, 0.3, dtype=dtype), x)


@BOUNDED
@given(st.sampled_from((1, 2, 5)), st.integers(1, 9), st.integers(1, 4), st.integers(0, 4), DTYPES, SEEDS)
def test_unfolding_overlapping_windows_equals_pytorch(
    rows: int, size: int, step: int, more: int, dtype: torch.dtype, seed: int
) -> None:
    length = size + more * step + more % step
    shape = [rows, length, 3]
    windows = filled((rows, length, 3), dtype, seed).unfold(1, size, step)
    equal(lambda x: torch.ops.aten.unfold_backward(x, shape, 1, size, step), windows)
    equal(lambda x: torch.ops.aten.unfold_backward(x, shape, 1, size, step), windows[:1].contiguous())
    flat = filled((rows, length), dtype, seed)
    equal(
        lambda x: torch.ops.aten.unfold_backward(x, [rows, length], -1, size, step),
        flat.unfold(1, size, step),
    )


def test_windows_that_overlap_are_one_operator() -> None:
    """PyTorch decomposes broadcast windows into five operators for each element of a window."""
    made = captured(
        lambda x: torch.ops.aten.unfold_backward(x, [2, 16400], 1, 400, 160), torch.randn(1, 101, 400)
    )
    assert len([node for node in made.graph.nodes if node.op == "call_function"]) == 1


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_windows_of_dense_memory_in_any_order(axes: tuple[int, ...]) -> None:
    """As sliding-window attention takes chunks of projections that were transposed."""
    x = filled((4, 3, 5), torch.float32, 0)
    equal(lambda x: x.permute(axes).as_strided((3, 4), (7, 2), 5) + 0, x)
    equal(lambda x: x.permute(axes).as_strided((3, 4), (7, 2), 5) + 0, x.permute(2, 1, 0))


def test_windows_of_a_slice_are_left_to_pytorch() -> None:
    made = reading(lambda x: x[1:].as_strided((3, 4), (7, 2)) + 0, torch.randn(4, 3, 5))
    assert "fill their memory" in str(made)


def test_operators_on_lists_are_computed_tensor_by_tensor() -> None:
    """Optimizers and moving averages call these (``foreach=True``)."""
    a, b, c = filled((3,), torch.float32, 0), filled((2, 2), torch.float32, 1), torch.tensor(1.5)

    def updated(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> list[torch.Tensor]:
        parameters, gradients = [a * 1, b * 1], [a - 2, b + 2]
        torch._foreach_mul_(parameters, 0.9)
        torch._foreach_addcdiv_(parameters, gradients, [a * a + 1, b * b + 1], [2.0, 3.0])
        torch._foreach_add_(parameters, torch._foreach_mul(gradients, scale), alpha=0.5)
        return [*torch._foreach_lerp(parameters, gradients, 0.25), *torch._foreach_norm(parameters, 1)]

    equal(updated, a, b, c)


def test_windows_are_created_by_elementary_operators() -> None:
    for window in (torch.hamming_window, torch.blackman_window, torch.bartlett_window):
        equal(lambda x, window=window: x * window(5, periodic=False), torch.ones(5))


@pytest.mark.parametrize("length", [0, 1, 2, 9])
@pytest.mark.parametrize("periodic", [False, True])
def test_window_of_kaiser(length: int, periodic: bool) -> None:
    """PyTorch's kernel writes memory that fake tensors do not have."""
    equal(lambda x: x * torch.kaiser_window(length, periodic), torch.ones(length))
    equal(lambda x: x * torch.kaiser_window(length, periodic, 5.5, dtype=torch.float64), torch.ones(length))


def test_kernels_that_reinterpret_memory_are_left_to_pytorch() -> None:
    made = reading(lambda x: aten._lazy_clone(x) * 2, torch.ones(3))
    assert [node.target for node in made.unsupported] == [aten._lazy_clone.default]


def regular(*shape: int) -> torch.Tensor:
    """Matrices whose systems are well-conditioned."""
    return torch.randn(shape) / shape[-1] ** 0.5 + 2 * torch.eye(shape[-1])


@pytest.mark.parametrize("size", [1, 3, 16, 21, 40])
@pytest.mark.parametrize("unitriangular", [False, True])
def test_triangular_systems_equal_pytorch(size: int, unitriangular: bool) -> None:
    """The other triangle of the matrix is not read. Batches are broadcast."""
    torch.manual_seed(size)
    a, b = regular(2, size, size), torch.randn(3, 1, size, 2)
    for upper in (False, True):
        given = {"upper": upper, "unitriangular": unitriangular}
        equal(lambda a, b, given=given: torch.linalg.solve_triangular(a, b, **given), a / 2, b)
        equal(lambda a, b, given=given: torch.linalg.solve_triangular(a, b, left=False, **given), a / 2, b.mT)


@pytest.mark.parametrize("size", [1, 3, 16, 21, 40])
def test_factors_solutions_and_determinants_equal_pytorch(size: int) -> None:
    torch.manual_seed(size)
    x = regular(2, size, size)
    positive = x @ x.mT
    equal(lambda x: torch.linalg.cholesky_ex(x)[0], positive)
    equal(lambda x: torch.linalg.cholesky_ex(x, upper=True)[0], positive)
    factor = torch.linalg.cholesky(positive)
    for upper in (False, True):
        given = factor.mT if upper else factor
        equal(lambda f, y, upper=upper: torch.cholesky_solve(y, f, upper), given, torch.randn(2, size, 3))
        equal(lambda f, upper=upper: torch.cholesky_inverse(f, upper), given)
    equal(lambda x: torch.linalg.inv_ex(x)[0], x)
    equal(lambda x, y: torch.linalg.solve_ex(x, y)[0], x, torch.randn(2, size, 3))
    equal(lambda x, y: torch.linalg.solve_ex(x, y)[0], x, torch.randn(2, size))
    equal(lambda x, y: torch.linalg.solve_ex(x, y, left=False)[0], x, torch.randn(2, 3, size))
    equal(torch.linalg.slogdet, x.flip(-1))
    equal(torch.linalg.det, x)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_logarithms_of_determinants_have_no_range(scale: float) -> None:
    rows = torch.tensor([[scale], [scale], [1.0], [0.5]])
    equal(torch.linalg.slogdet, rows * regular(4, 4))
    equal(torch.linalg.slogdet, torch.zeros(4, 4))


def test_results_that_only_lapack_has_are_left_to_pytorch() -> None:
    for function, operator, number in (
        (torch.linalg.inv, "aten.linalg_inv_ex.default", 1),
        (torch.linalg.cholesky, "aten.linalg_cholesky_ex.default", 1),
        (lambda x: torch.linalg.solve(x, x), "aten._linalg_solve_ex.default", 3),
    ):
        made = reading(function, regular(3, 3))
        assert {str(node.target): reason for node, reason in made.unsupported.items()} == {
            operator: f"its result {number} is not supported",
            "aten._linalg_check_errors.default": "there is no op for it",
        }


def test_large_matrices_are_left_to_pytorch_with_the_reason() -> None:
    made = reading(lambda x: torch.linalg.cholesky_ex(x)[0], torch.eye(65))
    reason = "its matrices have 65 rows; a fixed number from 1 to 64 is needed"
    assert list(made.unsupported.values()) == [reason]


@pytest.mark.parametrize("density", [False, True])
def test_histograms_with_edges_equal_pytorch(density: bool) -> None:
    """Elements on edges, beyond them, and NaN."""
    torch.manual_seed(0)
    x, weight = torch.cat([torch.randn(60), torch.tensor([-2.0, 0.0, 2.0, 2.5, torch.nan])]), torch.rand(65)
    edges = torch.tensor([-1.0, -0.5, 0.0, 2.0])
    equal(lambda x: torch.histogram(x, 8, range=(-2.0, 2.0), density=density), x)
    equal(lambda x, w: torch.histogram(x, 4, range=(0.0, 2.0), weight=w, density=density), x, weight)
    equal(lambda x, e: torch.histogram(x.reshape(5, 13), e, density=density), x, edges)
    equal(lambda x: torch.histogram(x, 3, range=(1.0, 1.0)), x)
    equal(lambda x: torch.histogram(x[:60], 7, density=density), x)


@pytest.mark.parametrize("index", [[0], [-1], [], [0, 0]])
def test_a_tensor_of_rank_0_is_filled(index: list[int]) -> None:
    tensors = torch.tensor(3.0), torch.tensor(index, dtype=torch.int64)
    made = run(reading(lambda x, i: x.index_fill(0, i, 7.0), *tensors), *tensors)
    torch.testing.assert_close(made, [torch.tensor(7.0 if index else 3.0)])


@pytest.mark.parametrize("size", [1, 5, 21])
def test_systems_of_lu_factors_equal_pytorch(size: int) -> None:
    torch.manual_seed(size)
    factors, pivots = torch.linalg.lu_factor(torch.randn(2, size, size, dtype=torch.float64))
    b = torch.randn(3, 2, size, 4, dtype=torch.float64)
    equal(torch.lu_unpack, factors, pivots)
    for adjoint in (False, True):
        equal(lambda f, p, b, t=adjoint: torch.linalg.lu_solve(f, p, b, adjoint=t), factors, pivots, b)
        equal(lambda f, p, b, t=adjoint: torch.linalg.lu_solve(f, p, b, left=False, adjoint=t),
              factors, pivots, b.mT)  # fmt: skip


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_deprecated_functions_of_triangles(upper: bool, transpose: bool) -> None:
    a, b = regular(5, 5), torch.randn(5, 2)
    equal(lambda a, b: torch.triangular_solve(b, a, upper, transpose)[0], a, b)
    equal(lambda a: torch.cholesky(a @ a.mT, upper), a)


@pytest.mark.parametrize(("rows", "columns", "count"), [(6, 4, 4), (6, 4, 3), (5, 5, 5)])
def test_products_of_reflections(rows: int, columns: int, count: int) -> None:
    vectors, scales = torch.geqrf(torch.randn(2, rows, columns))
    equal(torch.linalg.householder_product, vectors, scales[..., :count])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exponentials_of_matrices(dtype: torch.dtype) -> None:
    """The exact exponential of a rotation by ``angle``, and of matrices of several norms."""
    angle = torch.tensor([0.0, 0.1, 2.0, 500.0], dtype=torch.float64)
    turn = angle[:, None, None] * torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    exact = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).reshape(4, 2, 2)
    (made,) = run(reading(torch.matrix_exp, turn.to(dtype)), turn.to(dtype))
    accuracy = 1e-3 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(made.double(), exact, rtol=0, atol=accuracy)
    equal(torch.matrix_exp, torch.diag(torch.tensor([-3e5, -4e4])))  # squared 20 times
    equal(torch.matrix_exp, torch.empty(2, 0, 0))
    x = torch.randn(3, 5, 5, dtype=torch.float64)
    (made,) = run(reading(torch.matrix_exp, x), x)
    torch.testing.assert_close(made, torch.matrix_exp(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, torch.inf])
def test_gradients_of_distances(p: float) -> None:
    """Two rows are equal, and a difference is 0."""
    a, b = torch.randn(2, 5, 3), torch.randn(2, 4, 3)
    a[:, 0], b[:, 1, 2] = b[:, 2], a[:, 1, 2]
    given = torch.randn(2, 5, 4)
    equal(lambda g, a, b, d: aten._cdist_backward(g, a, b, p, d), given, a, b, torch.cdist(a, b, p))
    rows = torch.cat([a[0], a[0, :1]])
    distances = torch.pdist(rows, p)
    equal(lambda g, x, d: aten._pdist_backward(g, x, p, d), torch.randn(len(distances)), rows, distances)

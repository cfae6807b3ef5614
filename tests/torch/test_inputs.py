"""Unusual arguments and environments of compiled functions, compared with eager PyTorch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.testing._internal.two_tensor import TwoTensor

import graphwright as gw
from graphwright.frontends.torch.interface import Interface, Output
from graphwright.torch import report
from tests.torch.support import close, compiled


def complex_() -> torch.Tensor:
    return torch.complex(torch.randn(4), torch.randn(4))


def overlapping(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return y * 2


CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "columns": (lambda x, y: (x + y, x @ y.T), lambda: (torch.randn(4, 6)[:, ::2], torch.randn(3, 4).t())),
    "broadcast": (lambda x: x * 2 + x.sum(), lambda: (torch.randn(3, 1).expand(3, 5),)),
    "overlap in one": (lambda x: x * 2 + 1, lambda: (torch.randn(10).as_strided((4, 4), (1, 2)),)),
    "overlap of two": (overlapping, lambda: tuple(torch.zeros(8).unfold(0, 6, 2))),
    "scalars": (
        lambda x, y: (x + y, torch.stack([x, y]), x.item()),
        lambda: (torch.tensor(1.5), torch.tensor(2.5)),
    ),
    "no elements": (
        lambda x, w: (x @ w, x.sum(0), torch.cat([x, x])),
        lambda: (torch.randn(0, 4), torch.randn(4, 3)),
    ),
    "complex": (lambda x: (x * 2).abs(), lambda: (complex_(),)),
    "negated": (lambda x: x * 2 + 1, lambda: (complex_().conj().imag,)),
    "negated inside": (lambda x: torch.complex(x, x).conj().imag * 2, lambda: (torch.randn(4),)),
    "sparse": (
        lambda x, y: torch.sparse.mm(x, y) + 1,
        lambda: (torch.eye(4).to_sparse(), torch.randn(4, 3)),
    ),
    "quantized": (
        lambda x: x.dequantize() + 1,
        lambda: (torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.quint8),),
    ),
    "two layouts": (lambda x: (x * 2, x.t_() + 1), lambda: (torch.randn(2, 3),)),
    "resized": (lambda x: x.resize_(6).fill_(1) * 2, lambda: (torch.zeros(3),)),
    "parts written": (lambda x: x[1:].mul_(2).sum() + x[0].add_(1), lambda: (torch.randn(4, 3),)),
    "gaps written": (lambda x: x.mul_(2).sum(), lambda: (torch.randn(4, 6)[:, ::2],)),
    "elements decide": (lambda x: x[x > 0] * 2, lambda: (torch.randn(10),)),
    "vmap": (torch.func.vmap(lambda row: row.sin() * row.sum()), lambda: (torch.randn(3, 4),)),
    "grad": (torch.func.grad(lambda x: (x.sin() ** 2).sum()), lambda: (torch.randn(4),)),
    "jvp": (lambda x: torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),)), lambda: (torch.randn(4),)),
    "dropout": (lambda x: nn.functional.dropout(x, 0.3) * 2, lambda: (torch.randn(100),)),
    "random": (
        lambda x: (
            x + torch.rand(5) + torch.randn(5) + torch.randint(0, 9, (5,)) + torch.bernoulli(x.sigmoid())
        ),
        lambda: (torch.randn(5),),
    ),
    "no arguments": (lambda: torch.ones(3) + 1, lambda: ()),
    "an argument": (lambda x: (x, None, 3), lambda: (torch.ones(2),)),
    "wide number": (lambda x: x + 2**40, lambda: (torch.arange(3),)),
}


@pytest.mark.parametrize("name", CASES)
def test_results_equal_those_of_pytorch(name: str) -> None:
    function, make = CASES[name]
    given = make()
    expected_given = copy.deepcopy(given)
    torch.manual_seed(1)
    expected = function(*expected_given)
    torch.manual_seed(1)
    close(compiled(function)(*given), expected)
    close(given, expected_given)


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.jacrev])
def test_transforms_of_compiled_functions(transform: Callable[..., Any]) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * x.sum()

    x = torch.randn(3, 4)
    close(transform(compiled(call))(x), transform(call)(x))


def test_positions_of_extreme_bools() -> None:
    def positions(x: torch.Tensor) -> Any:
        return x.max(1), x.min(0, keepdim=True)

    x = torch.randn(3, 4) > 0
    close(compiled(positions, options={"strict": True})(x), positions(x))


def test_tensors_without_memory() -> None:
    plain, result = compiled(lambda x, y: (x * 2, y + 1))(torch.randn(3, device="meta"), torch.ones(2))
    assert (plain.device.type, plain.shape) == ("meta", (3,))
    assert result.tolist() == [2, 2]
    run = compiled(lambda x: x * 2 + 1)
    run(torch.ones(3))
    with torch._subclasses.FakeTensorMode():
        assert run(torch.ones(3)).shape == (3,)


def test_subclasses_of_tensors_are_kept() -> None:
    class Named(torch.Tensor):
        pass

    def call(x: torch.Tensor) -> torch.Tensor:
        return (x * 2 + 1).sin()

    x = torch.randn(4).as_subclass(Named)
    result = compiled(call)(x)
    assert type(result) is Named
    close(result, call(x))
    pair = TwoTensor(torch.randn(4), torch.randn(4))
    result = compiled(call)(pair)
    close((result.a, result.b), (call(pair.a), call(pair.b)))


def test_nested_tensors_equal_pytorch() -> None:
    ragged = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged)
    close(compiled(lambda x: x * 2)(ragged).unbind(), [2 * each for each in ragged.unbind()])


def test_gradients_of_nested_tensors() -> None:
    """Results have the row lengths of the argument: PyTorch compares the tensors of offsets by identity."""
    rows = [torch.randn(2, 3), torch.randn(4, 3)]
    ragged = torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True)
    weight = torch.randn(3, 3, requires_grad=True)
    result = compiled(lambda x: (x @ weight).sin())(ragged)
    assert result.shape == ragged.shape
    result.values().sum().backward()
    close(weight.grad, torch.cat(rows).T @ (torch.cat(rows) @ weight).cos())


def test_results_share_memory_as_in_eager_mode() -> None:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y, y.view(-1), y.t(), y.detach()[1:], x.view(-1), x

    x = torch.zeros(2, 3)
    for n in (2, 5):
        x = torch.zeros(n, 3)
        for made in (compiled(call, dynamic=True)(x), call(x)):
            made[0].fill_(7)
            made[4][0] = 9
            assert all((each == 7).all() for each in made[:4])
            assert made[2].stride() == (1, 3)
            assert made[5] is x
            assert x[0, 0] == 9


def test_results_that_are_views_of_one_tensor_share_its_memory() -> None:
    first, second = compiled(lambda x: torch.chunk(x * 2, 2))(torch.arange(6.0))
    assert (first.tolist(), second.tolist()) == ([0, 2, 4], [6, 8, 10])
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


@pytest.mark.parametrize("mode", ["default", "eager"])
@pytest.mark.parametrize("trained", [False, True])
def test_results_of_any_strides_can_be_written(mode: str, trained: bool) -> None:
    """Autograd rejects writes to views that it did not record."""
    x, scale = torch.randn(3, 4, requires_grad=trained), torch.tensor(3.0, requires_grad=True)
    run = compiled(lambda x: (x.t().sin(), torch.zeros_like(x.t())), options={"mode": mode})
    made, zeros = run(x)
    made.mul_(scale)
    zeros[0] = scale
    assert made.stride() == zeros.stride() == (1, 4)
    (made.sum() + zeros.sum()).backward()
    expected = x.detach().sin().sum() + 3
    assert scale.grad is not None
    close(scale.grad, expected)


VIEWS_OF_OTHER_DTYPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as many bits": lambda y: y.view(torch.int32),
    "fewer": lambda y: y[1:].view(torch.int16),
    "more": lambda y: y[1:].view(torch.int64),
    "complex": torch.view_as_complex,
    "conjugated": lambda y: torch.view_as_complex(y).conj(),
    "negated": lambda y: torch.view_as_complex(y[1:]).conj().imag,
}


@pytest.mark.parametrize("view", VIEWS_OF_OTHER_DTYPES.values(), ids=VIEWS_OF_OTHER_DTYPES)
def test_views_of_another_dtype(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.arange(8.0).reshape(4, 2)[1:]
    of_made, of_argument = compiled(lambda x: ((y := x * 2), view(y))), compiled(view)
    made, made_view = of_made(x)
    for given, base, expected in ((made_view, made, view(x * 2)), (of_argument(x), x, view(x))):
        assert given.dtype == expected.dtype
        assert torch.equal(given, expected)
        assert given.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_default_dtype(dtype: torch.dtype) -> None:
    run = compiled(lambda x: x + torch.ones(3) * 0.1)
    run(torch.ones(3))
    torch.set_default_dtype(dtype)
    try:
        assert run(torch.ones(3)).dtype == dtype
    finally:
        torch.set_default_dtype(torch.float32)


def test_numbers_that_change() -> None:
    run = compiled(lambda x, a, b: x * a + b)
    for a, b in ((1, 2.0), (3, 4.5), (5, 1e9), (True, 0), (-2, math.nan), (0.5, math.inf), (-7, 1.0)):
        close(run(torch.ones(3), a, b), torch.ones(3) * a + b) if b == b else None
        assert torch.equal(run(torch.ones(3), a, b).isnan(), (torch.ones(3) * a + b).isnan())


def test_a_marked_range_is_compiled_once() -> None:
    run, x = compiled(lambda x: (x @ x.t()).softmax(-1).sum(0)), torch.randn(5, 4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
    run(x)
    for n in (2, 3, 17, 64):
        x = torch.randn(n, 4)
        close(run(x), (x @ x.t()).softmax(-1).sum(0))
    found = gw.torch.report(run)
    assert (len(found), found[0].compilations) == (1, 1)
    x = torch.randn(65, 4)
    close(run(x), (x @ x.t()).softmax(-1).sum(0))


def test_data_dependent_sizes() -> None:
    patched = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True}
    with torch._dynamo.config.patch(patched):
        run = compiled(lambda x: (x[x > 0] * 2).sum() + x.unique().shape[0])
        for n in (3, 10):
            x = torch.randn(n)
            close(run(x), (x[x > 0] * 2).sum() + x.unique().shape[0])
        run = compiled(lambda x, n: torch.zeros(n.item()) + x.sum())
        for n in (3, 5):
            close(run(torch.ones(2), torch.tensor(n)), torch.full((n,), 2.0))


DECIDED_RESULTS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "a size": lambda x, n: torch.nonzero(x).shape[0],
    "a size and what has it": lambda x, n: ((z := torch.nonzero(x)), z.shape[0] * 2 + 1),
    "a float": lambda x, n: (x.sum().item(), x * x.sum().item()),
    "a bool": lambda x, n: (x.sum() > 0).item(),
    "views of what is made": lambda x, n: ((y := x[x > 0]), y.view(-1, 1), y[1:]),
    "views of an argument": lambda x, n: x.split([n.item(), 5 - n.item()]),
    "a list": lambda x, n: x.new_tensor(n.expand(3).tolist()),
}


@pytest.mark.parametrize("call", DECIDED_RESULTS.values(), ids=DECIDED_RESULTS)
def test_results_that_elements_decide(call: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True),
        torch.no_grad(),
    ):
        run = compiled(call, fullgraph=True)
        for n in (2, 1, 0, 3):
            x, count = torch.arange(5.0) - n, torch.tensor(n)
            torch.testing.assert_close(run(x, count), call(x, count))


SIZES_AS_NUMBERS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "full": lambda x, n: torch.full((3,), n, dtype=torch.float32),
    "full_like": lambda x, n: torch.full_like(x, n),
    "new_tensor": lambda x, n: x.new_tensor([n, 2]),
    "clamp": lambda x, n: x.clamp(min=n - 5),
    "tril": lambda x, n: torch.tril(x, n - 5),
    "square root": lambda x, n: x * n**-0.5,
    "linspace": lambda x, n: torch.linspace(0, n - 1, 4).round().long(),
    "circular": lambda x, n: nn.functional.pad(x[None], (1, 1), mode="circular"),
}


@pytest.mark.parametrize("call", SIZES_AS_NUMBERS.values(), ids=SIZES_AS_NUMBERS)
def test_dynamic_sizes_are_numbers_too(call: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
    run = compiled(lambda x: call(x, x.shape[0]), dynamic=True)
    for n in (5, 7, 9):
        x = torch.randn(n, 6)
        close(run(x), call(x, n))


def test_special_values_of_floats() -> None:
    """The sign of NaN is 0, and quotients that are rounded down are infinite for divisors of 0."""

    def call(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.sign(a), torch.sgn(a), a // b, torch.div(a, b, rounding_mode="floor"), a // 0.0

    special = torch.tensor([1.0, -1.0, 0.0, -0.0, math.inf, -math.inf, math.nan, 7.5, -7.5])
    for x in (special, special.half(), special.double()):
        a, b = x.repeat_interleave(9), x.repeat(9)
        torch.testing.assert_close(compiled(call)(a, b), call(a, b), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
def test_bits_of_integers(dtype: torch.dtype) -> None:
    def call(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        nibbles = torch.stack([a & 15, a >> 4], -1)
        return a << b, a >> b, 3 << b, a << 1, 7 & a, 100 % (b + 1), torch.bitwise_left_shift(a, 2), nibbles

    info = torch.iinfo(dtype)
    values = torch.tensor([info.min, info.max, 0, 1, 5, info.max // 3], dtype=dtype)
    a, b = values.repeat_interleave(7), torch.arange(7, dtype=dtype).repeat(6)
    run = compiled(call, options={"strict": True})
    torch.testing.assert_close(run(a, b), call(a, b), rtol=0, atol=0)


@pytest.mark.parametrize("rows", [1, 17, 40])
def test_products_of_i8(rows: int) -> None:
    a = torch.randint(-128, 128, (rows, 64), dtype=torch.int8)
    b = torch.randint(-128, 128, (48, 64), dtype=torch.int8).t()
    scale = torch.rand(48)
    run = compiled(lambda a, b: torch._int_mm(a, b) * scale, options={"strict": True})
    torch.testing.assert_close(run(a, b), (a.int() @ b.int()) * scale)


def test_results_in_inference_mode_are_inference_tensors() -> None:
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    run = compiled(model)
    with torch.inference_mode():
        result = run(x)
        assert result.is_inference()
        close(result, model(x))
    with torch.no_grad():
        assert not run(x).is_inference()


def test_autocast_is_followed_in_each_call() -> None:
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    run = compiled(model)
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            result = run(x)
        assert result.dtype == torch.bfloat16
        torch.testing.assert_close(result.float(), model(x), rtol=2e-2, atol=2e-2)
        assert run(x).dtype == torch.float32


def test_gradients_of_arguments() -> None:
    x = torch.randn(3, requires_grad=True)
    run = compiled(lambda t: (t * 2).sin())
    run(x).sum().backward()
    close(x.grad, 2 * torch.cos(2 * x.detach()))
    with torch.no_grad():
        assert not run(x).requires_grad


def test_compiled_functions_call_compiled_functions() -> None:
    inner, x = compiled(lambda x: x.sin() + 1), torch.randn(4)
    close(compiled(lambda x: inner(x) * 2)(x), (x.sin() + 1) * 2)


def test_deep_graphs_compile() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        for k in range(600):
            x = x.sin() if k % 2 else x * 1.0001
        return x

    x = torch.randn(3)
    close(compiled(call)(x), call(x))


def test_errors_of_a_run_are_raised() -> None:
    run = compiled(lambda x, i: x[i])
    assert run(torch.ones(3), torch.tensor([2])).tolist() == [1]
    with pytest.raises(Exception, match="out of range: 7, which must be from -3 to 2"):
        run(torch.ones(3), torch.tensor([7]))
    assert run(torch.ones(3), torch.tensor([-3])).tolist() == [1]


INDEXED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "embedding": lambda x, i: functional.embedding(i, x),
    "embedding_bag": lambda x, i: functional.embedding_bag(i.reshape(1, -1), x),
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i.unsqueeze(1)),
    "scatter": lambda x, i: x.scatter(0, i.unsqueeze(1), 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i.unsqueeze(1), torch.ones(3, 1)),
    "index_copy": lambda x, i: x.index_copy(0, i, torch.ones(3, 4)),
    "nll_loss": lambda x, i: functional.nll_loss(x[:3], i),
}


@pytest.mark.parametrize("name", INDEXED)
def test_negative_indices_are_errors_as_in_pytorch(name: str) -> None:
    function = INDEXED[name]
    made = torch.compile(function, backend="graphwright")
    x = torch.arange(20.0).reshape(5, 4)
    valid, negative = torch.tensor([2, 0, 3]), torch.tensor([2, -2, 3])
    torch.testing.assert_close(made(x, valid), function(x, valid))
    with pytest.raises((IndexError, RuntimeError)):
        function(x, negative)
    with pytest.raises(gw.GraphwrightError, match="an index is out of range: -2, which must be from 0 to"):
        made(x, negative)


def test_negative_indices_count_from_the_end_as_in_pytorch() -> None:
    x, at = torch.arange(20.0).reshape(5, 4), torch.tensor([1, -2])
    for function in (
        lambda x, i: x[i],
        lambda x, i: x.take(i),
        lambda x, i: x.index_fill(0, i, 7.0),
        lambda x, i: x.index_fill(1, i[1], torch.tensor(3)),
        lambda x, i: torch.take_along_dim(x, i.unsqueeze(1), 0),
    ):
        torch.testing.assert_close(torch.compile(function, backend="graphwright")(x, at), function(x, at))


@pytest.mark.parametrize("name", ["linear", "mm", "bmm", "linear without bias"])
def test_products_of_two_dtypes_are_errors_as_in_pytorch(name: str) -> None:
    functions: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
        "linear": lambda x, w: functional.linear(x, w, torch.zeros(4)),
        "linear without bias": functional.linear,
        "mm": torch.mm,
        "bmm": lambda x, w: torch.bmm(x[None], w[None]),
    }
    made = torch.compile(functions[name], backend="graphwright")
    x, w = torch.ones(3, 4, dtype=torch.float64), torch.ones(4, 4)
    torch.testing.assert_close(made(x.float(), w), functions[name](x.float(), w))
    for call in (functions[name], made):
        with pytest.raises(RuntimeError, match=r"dtype|scalar type"):
            call(x, w)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_results_without_elements_have_the_strides_of_eager_mode(dtype: torch.dtype) -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    x, run = torch.zeros(0, 3, 4, dtype=dtype), compiled(doubled)
    for _ in range(2):  # the first call has no fast path yet
        made = run(x)
        assert (made.dtype, made.shape, made.stride()) == (dtype, x.shape, doubled(x).stride())


@pytest.mark.parametrize("is_size", [True, False], ids=["of an argument", "of no argument"])
def test_negative_numbers_are_accepted_with_permuted_results(is_size: bool) -> None:
    """A size that PyTorch negates follows from a size, or makes PyTorch run the subgraph."""

    def function(x: torch.Tensor, z: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
        k = -x.shape[1]
        y = ((x if is_size else z) * 2).transpose(1, 2)
        factor = torch.linalg.cholesky(s)[0, 0]  # which PyTorch runs
        return y.new_full((1,), k) + y * factor, (y * k).transpose(1, 2), y * k

    made = compiled(function, dynamic=True)
    with torch.no_grad():
        for size in (5, 7):
            given = torch.randn(2, size, 4), torch.randn(2, 3, 4), torch.eye(3)
            for actual, expected in zip(made(*given), function(*given), strict=True):
                torch.testing.assert_close(actual, expected)
                assert actual.stride() == expected.stride()


def test_results_of_pytorch_become_outputs_of_the_module_and_back() -> None:
    """As for a subgraph that PyTorch runs, because the module does not accept an argument."""
    interface = Interface(outputs=[Output((0, 2, 1)), Output(None, 3), Output((2, 0, 1)), Output((0,))])
    given = [torch.randn(2, 3, 4), 3, torch.randn(5, 6, 7), torch.randn(2)]
    outputs = interface.outputs_of(given)
    assert [tuple(each.shape) for each in outputs] == [(2, 4, 3), (7, 5, 6), (2,)]
    for actual, expected in zip(interface.results(outputs, ()), given, strict=True):
        assert actual is expected or torch.equal(actual, expected)


def test_zero_tensors_without_memory() -> None:
    """Forward-mode gradients that are known to be zero are such tensors."""
    function = compiled(lambda x: x * 2 + 1)
    zero = torch._efficientzerotensor((300, 40))
    for given in (torch.randn(300, 40), zero, zero):
        close(function(given), given * 2 + 1)


def test_batches_of_gradients() -> None:
    """A Jacobian from one call of autograd, which vectorizes the compiled backward graph."""
    x, weight = torch.randn(3, requires_grad=True), torch.randn(3, 3, requires_grad=True)

    def function(x: torch.Tensor) -> torch.Tensor:
        return (weight.t() @ (x * x.sum())).sin()

    def jacobians(y: torch.Tensor) -> Any:
        return torch.autograd.grad(y, (x, weight), torch.eye(3), is_grads_batched=True)

    close(jacobians(compiled(function)(x)), jacobians(function(x)))


def test_only_operators_are_reported_as_left_to_pytorch() -> None:
    ragged = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged)
    run = compiled(lambda x: x.sin() * 2)  # the size of the ragged axis is an argument of the graph
    close(run(ragged).values(), ragged.values().sin() * 2)
    assert not report(run).missing


def test_zero_tangents_of_jvp_are_native() -> None:
    run = compiled(lambda x: torch.func.jvp(lambda v: (v.sin(), v.detach()), (x,), (x + 1,)))
    x = torch.arange(3.0)
    close(run(x), ((x.sin(), x), (x.cos() * (x + 1), torch.zeros(3))))
    assert not report(run).missing

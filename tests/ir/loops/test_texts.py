"""Each kernel text: parsed, verified, printed back, and interpreted against plain NumPy."""

import numpy as np
import pytest

from graphwright.errors import ModelError, VerifyError
from graphwright.ir.loops.interpret import interpret
from graphwright.ir.loops.text import parse_kernel, print_kernel
from graphwright.ir.loops.verify import verify
from tests.ir.loops.cases import CASES, Case, arrays_of


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_print_and_parse_are_inverse(case: Case) -> None:
    kernel = parse_kernel(case.text)
    printed = print_kernel(kernel)
    assert parse_kernel(printed) == kernel
    assert print_kernel(parse_kernel(printed)) == printed


def test_the_print_of_softmax_is_its_text() -> None:
    text = next(c for c in CASES if c.name == "softmax").text
    assert print_kernel(parse_kernel(text)) == text


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_interpreter_agrees_with_numpy(case: Case) -> None:
    kernel = parse_kernel(case.text)
    verify(kernel)
    for sizes in case.sizes:
        arrays = arrays_of(case, kernel, sizes)
        expected = case.expected({n: a.copy() for n, a in arrays.items()}, sizes)
        interpret(kernel, arrays, sizes)
        for name, value in expected.items():
            np.testing.assert_allclose(arrays[name], value, rtol=case.tolerance, atol=case.tolerance)


def test_scalar_arguments_are_parsed_printed_and_interpreted() -> None:
    text = """kernel k(x: f32[N], y: f32[N]) sizes(N) scalars(a, b) {
  vector i < N { y[i] = x[i] * a + b }
}
"""
    kernel = parse_kernel(text)
    verify(kernel)
    assert print_kernel(kernel) == text
    arrays = {"x": np.array([1, 2, -3], np.float32), "y": np.zeros(3, np.float32)}
    interpret(kernel, arrays, {"N": 3}, (0.5, 10))
    assert arrays["y"].tolist() == [10.5, 11, 8.5]
    with pytest.raises(VerifyError, match="a is bound twice"):
        verify(parse_kernel(text.replace("scalars(a, b)", "scalars(a, b, a)")))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("kernel k(x: f32[N]) sizes(N) {\n  vector i < N { x[i] = y[i] }\n}", 2, "no buffer 'y'"),
        ("kernel k(x: f33[N]) sizes(N) { }", 1, "'f33' is not a dtype"),
        ("kernel k(x: f32[N]) sizes(N) {\n  a = 1.0\n}", 3, "needs a dtype"),
        ("kernel k(x: f32[N]) sizes(N) {\n  vector i < N {\n", 3, "expected '}'"),
        ("kernel k(x: f32[N]) sizes(N) { a = sine(1.0:f32) }", 1, "no function 'sine'"),
        ("kernel k(x: f32[N]) sizes(N) { vector i < N { x[i] = i } }", 1, "needs @"),
    ],
)
def test_bad_text_names_the_place(text: str, line: int, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        parse_kernel(text)
    assert caught.value.diagnostics[0].where == f"line {line}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("vector i < M { x[i] = 1.0 }", "M in M is not bound"),
        ("vector i < N { x[i, i] = 1.0 }", "2 indices into x"),
        ("vector i < N { x[i] = 1:i64 }", "the value is i64, not f32"),
        ("vector i < N step 2 { x[i] = 1.0 }", "has step 1"),
        ("parallel i < N { parallel i < N { x[i] = 1.0 } }", "i is bound twice"),
        ("vector i < N { x[i] plus= 1.0 }", "no combiner 'plus'"),
        ("vector i < N { e: f32[4] cache x[i] = 1.0 }", "only registers"),
        ("vector i < N { x[i where x[i]] = 1.0 }", "the mask is f32"),
        ("e: f32[N] register", "literal shape"),
        ("x[0:1, 0:1] += matmul(x[0:1, 0:1], x[0:1, 0:1])", "tile of 2 axes"),
    ],
)
def test_verify_rejects_invalid_kernels(body: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(parse_kernel(f"kernel k(x: f32[N]) sizes(N) {{ {body} }}"))


def test_interpreter_checks_bounds_and_names_the_statement() -> None:
    kernel = parse_kernel("kernel k(x: f32[N]) sizes(N) { vector i < N { x[i + 1] = 1.0 } }")
    with pytest.raises(VerifyError, match=r"x: index 1\.\.4 outside \[0, 4\)") as caught:
        interpret(kernel, {"x": np.zeros(4, np.float32)}, {"N": 4})
    assert caught.value.diagnostics[0].where == "x[i + 1] = 1.0"
    masked = parse_kernel(
        "kernel k(x: f32[N]) sizes(N) { vector i < N { x[i + 1 where @(i + 1) < @N] = 1.0 } }"
    )
    x = np.zeros(4, np.float32)
    interpret(masked, {"x": x}, {"N": 4})
    assert x.tolist() == [0, 1, 1, 1]

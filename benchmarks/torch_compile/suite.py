"""Tests the backend with PyTorch's own database of operators, its modules, and small models of transformers.

    python -m benchmarks.torch_compile.suite ops [--samples 3] [NAME ...]
    python -m benchmarks.torch_compile.suite modules
    python -m benchmarks.torch_compile.suite models

Each case is one call, in eager mode and compiled, with the same seed; the results must be close as PyTorch's
own tests have it. ``native`` counts cases none of whose operators is left to PyTorch. ``models`` needs the
package transformers; weights are random. The table of operators that are left goes to standard output, with
``--write`` into ``docs`` as well.
"""

from __future__ import annotations

import argparse
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_map_only

from benchmarks.report import ROOT
from graphwright.torch import backend, report

SECONDS = 120
"""Of one case at most."""
PAGE = ROOT / "docs" / "pytorch_operators.md"
BEGIN, END = "--write -->", "<!-- end of left -->"
UNDEFINED = frozenset(
    ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
)
"""Operators whose results may be anything: only their shapes are compared."""


class Case(NamedTuple):
    """A call under a name; several cases may share one."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...]


class Outcome(NamedTuple):
    """Why a case failed, or nothing, and the operators that PyTorch ran in it."""

    fault: str
    left: tuple[tuple[str, str], ...]


def operators(samples: int) -> Iterator[Case]:
    for info in op_db:
        if torch.float32 not in info.dtypes or "jiterator" in info.name:  # jiterator: for GPUs alone
            continue
        name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
        given = list(info.sample_inputs("cpu", torch.float32, requires_grad=False))  # type: ignore[no-untyped-call]
        for sample in given[:: max(1, len(given) // samples)][:samples]:
            arguments = (sample.input, sample.args, sample.kwargs)
            yield Case(name, lambda x, a, k, op=info.op: op(x, *a, **k), arguments)


def modules(samples: int) -> Iterator[Case]:
    for info in module_db:
        given = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=False
        )
        for each in given[:: max(1, len(given) // samples)][:samples]:
            made = info.module_cls(*each.constructor_input.args, **each.constructor_input.kwargs).eval()
            if each.forward_input is not None:
                arguments = (each.forward_input.args, each.forward_input.kwargs)
                yield Case(info.name, lambda a, k, made=made: made(*a, **k), arguments)


def models(samples: int) -> Iterator[Case]:
    from benchmarks.torch_compile.models import TINY

    for name, make in TINY.items():
        made, feeds = make()
        yield Case(name, lambda f, made=made: made(**f), (feeds,))


KINDS: dict[str, Callable[[int], Iterator[Case]]] = {"ops": operators, "modules": modules, "models": models}


def outcome(case: Case) -> Outcome | None:
    """Run one case in eager mode and compiled; None for what eager mode refuses."""
    torch._dynamo.reset()
    before = len(report())
    try:
        expected = _called(case, case.call)
    except (RuntimeError, TypeError, ValueError):
        return None
    try:
        fault = _difference(case, expected)
    except Exception as error:
        fault = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
    made = report()[before:]
    left = dict.fromkeys((each.operator, each.reason) for graph in made for each in graph.missing)
    return Outcome(fault, tuple(left))


def _called(case: Case, function: Callable[..., Any]) -> Any:
    signal.alarm(SECONDS)
    try:
        with torch.no_grad():
            torch.manual_seed(0)
            return function(*_copies(case.arguments))
    finally:
        signal.alarm(0)


def _difference(case: Case, expected: Any) -> str:
    result = _called(case, torch.compile(case.call, backend=backend))
    if case.name in UNDEFINED:
        result, expected = (
            tree_map_only(torch.Tensor, torch.zeros_like, each) for each in (result, expected)
        )
    try:
        torch.testing.assert_close(result, expected, equal_nan=True, rtol=1e-4, atol=1e-4)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


def _copies(arguments: Any) -> Any:
    return tree_map_only(torch.Tensor, torch.clone, arguments)


def _timeout(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("names", nargs="*", help="cases; all without any")
    parser.add_argument("--samples", type=int, default=3, help="calls of each operator or module")
    parser.add_argument("--write", action="store_true", help="write the table into docs/pytorch_operators.md")
    arguments = parser.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    signal.signal(signal.SIGALRM, _timeout)
    faults: dict[str, str] = {}
    left: dict[str, dict[str, str]] = {}
    for case in KINDS[arguments.kind](arguments.samples):
        if arguments.names and case.name not in arguments.names:
            continue
        made = outcome(case)
        if made is None:
            continue
        faults[case.name] = faults.get(case.name) or made.fault
        left.setdefault(case.name, {}).update(made.left)
        if made.fault:
            print(f"{case.name}: {made.fault[:300]}", file=sys.stderr, flush=True)
    text = _table(faults, left)
    print(text)
    if arguments.write:
        page = PAGE.read_text()
        PAGE.write_text(page[: page.index(BEGIN) + len(BEGIN)] + f"\n\n{text}\n\n" + page[page.index(END) :])


def _table(faults: dict[str, str], left: dict[str, dict[str, str]]) -> str:
    """The operators that are left, and the cases that leave some."""
    operators = Counter(name for found in left.values() for name in found)
    reasons = {name: reason for found in left.values() for name, reason in found.items()}
    rows = ["| operator left to PyTorch | cases | reason |", "| --- | ---: | --- |"]
    rows += [f"| `{name}` | {count} | {reasons[name]} |" for name, count in operators.most_common()]
    passed = sum(not fault for fault in faults.values())
    native = sum(not found and not faults[name] for name, found in left.items())
    cases = ", ".join(f"`{name}`" for name, found in left.items() if found)
    total = f"{passed} of {len(faults)} cases pass, {native} of them natively."
    return "\n".join([*rows, "", total, "", f"Cases in which PyTorch runs an operator: {cases}."])


if __name__ == "__main__":
    main()

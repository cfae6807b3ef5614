"""Every operator of PyTorch's that has an import function, compared with PyTorch itself.

Samples are those of PyTorch's own database of operators, for several dtypes.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from graphwright.frontends.torch.catalog import import_functions
from graphwright.frontends.torch.higher_order import parameters_of
from graphwright.frontends.torch.types import Unsupported
from tests.frontends.torch.support import parts_of, reading, run, samples_of

SAMPLES = 2
"""Of each operator and dtype."""
TOLERANCES = {
    torch.float32: 2e-5,
    torch.float64: 1e-7,
    torch.float16: 2e-3,
    torch.bfloat16: 3e-2,
    torch.int64: 0.0,
    torch.uint8: 0.0,
    torch.bool: 0.0,
}
"""Dtypes of samples, and how far results of each may be from PyTorch's."""
ROUGH = {"special.bessel_j0": (torch.float64,), "special.bessel_y1": (torch.float64,)}
"""Dtypes in which PyTorch's own results are far from exact ones."""
INEXACT = ("polygamma", "special.polygamma", "grid_sampler_2d", "grid_sampler_3d")
"""Operators whose results in small dtypes are compared with those in f64."""
UNDEFINED = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
"""Operators whose results may be anything."""
UNSTABLE = {"topk": 1, "sort": 0}
"""Operators for which the order of equal elements is undefined, and the position of their argument
``dim``.
"""
NOTHING_TAKEN = (
    "as_strided.partial_views",
    "linalg.inv_ex",
    "linalg.eigh",
    "linalg.lu_factor_ex",
    "linalg.qr",
    "linalg.svd",
)
"""Operators of which graphwright takes no sample: all results of inv_ex are read, also the error number.
Factorizations are left to PyTorch; exported models compute them.
"""


def _name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def _own(info: Any) -> bool:
    """Whether an operator of the database is one with an import function."""
    names = {name.partition(".")[0] for name in import_functions()}
    own = {info.aten_name, f"_{info.aten_name}", info.name.replace(".", "_")}
    return bool(names & own) and info.name not in UNDEFINED


@pytest.mark.parametrize("name", import_functions())
def test_operators_are_of_pytorch(name: str) -> None:
    if name.startswith("higher_order."):
        target = getattr(torch.ops.higher_order, name.removeprefix("higher_order."))
        taken = inspect.signature(type(target).__call__).parameters
        names = {parameter.name for parameter in parameters_of(target)} - {"mutated_arg_indices"}
        assert name == "higher_order.map_impl" or names == taken.keys() - {"self", "mutated_arg_indices"}
        return
    namespace, operator, overload = parts_of(name)
    assert overload in getattr(getattr(torch.ops, namespace), operator).overloads()


@pytest.mark.parametrize("info", [info for info in op_db if _own(info)], ids=_name)
def test_results_equal_those_of_pytorch(info: Any) -> None:
    done = 0
    for dtype in TOLERANCES:
        if dtype not in info.dtypes or dtype in ROUGH.get(info.name, ()):
            continue
        for sample in samples_of(info, dtype, SAMPLES):
            done += _check(info, sample)
    assert done or _name(info).startswith(NOTHING_TAKEN)


def _check(info: Any, sample: Any) -> bool:
    """Compare one call; whether graphwright takes it."""
    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[k] for k in places]

    def call(*given: torch.Tensor) -> Any:
        filled = list(leaves)
        for k, tensor in zip(places, given, strict=True):
            filled[k] = tensor
        first, rest, named = torch.utils._pytree.tree_unflatten(filled, spec)
        return info.op(first, *rest, **named)

    try:
        made = reading(call, *tensors)
    except Unsupported:
        return False
    if made.unsupported:
        return False
    expected = _called_in_f64(call, tensors) if info.name in INEXACT else call(*tensors)
    expected = list(expected) if isinstance(expected, tuple | list) else [expected]
    with torch.no_grad():
        results = run(made, *tensors)
    if info.name in UNSTABLE:
        axis = _axis(info, sample)
        results[1], expected[1] = (sample.input.gather(axis, r) for r in (results[1], expected[1]))
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        bound = TOLERANCES.get(getattr(wanted, "dtype", None), 0.0)
        torch.testing.assert_close(result, wanted, rtol=bound, atol=bound, equal_nan=True)
    return True


def _called_in_f64(call: Any, tensors: list[torch.Tensor]) -> torch.Tensor:
    """The result of ``call`` computed in f64, in the dtype that it has for ``tensors``."""
    wide = [each.double() if each.is_floating_point() else each for each in tensors]
    exact: torch.Tensor = call(*wide)
    return exact.to(call(*tensors).dtype)


def _axis(info: Any, sample: Any) -> int:
    """The axis along which elements are sorted."""
    given = sample.args[UNSTABLE[info.name] :]
    return int(sample.kwargs.get("dim", given[0] if given and type(given[0]) is int else -1))


def test_unsigned_integers_are_negated_as_in_pytorch() -> None:
    made = reading(torch.neg, torch.tensor([0, 1, 128, 255], dtype=torch.uint8))
    assert not made.unsupported
    assert run(made, torch.tensor([0, 1, 128, 255], dtype=torch.uint8))[0].tolist() == [0, 255, 128, 1]

"""Every op given operands that its samples do not have, of other ranks and sizes: a type, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import graphwright.ops
from graphwright.errors import ModelError
from graphwright.ir.op import Arg, Sample, registered_ops
from graphwright.ir.types import F32, I64, TensorType, optional_of, sequence_of
from tests.ops.support import sample_node

graphwright.ops.load()
OPS = {name: cls for name, cls in registered_ops().items() if cls.__module__.startswith("graphwright.ops.")}


def strange(sample: Sample) -> Iterator[Sample]:
    """A sample with one operand a scalar, empty, of more axes, another type, huge, a container or absent."""
    for position, given in enumerate(sample.inputs):
        if given is None:
            continue
        shape = given.type.dims
        others: list[Arg | None] = [None]
        for dims in ((), (0,), (1,), (3, *shape), shape[1:], tuple(0 for _ in shape), (2**40,) * len(shape)):
            others.append(replace(given, type=TensorType(given.type.dtype, dims), values=None))
        others.append(
            replace(given, type=TensorType(I64 if given.type.dtype is F32 else F32, shape), values=None)
        )
        others += [
            replace(given, type=TensorType(made(F32), ()), values=None) for made in (sequence_of, optional_of)
        ]
        for other in others:
            yield replace(sample, inputs=(*sample.inputs[:position], other, *sample.inputs[position + 1 :]))


@pytest.mark.parametrize("name", OPS)
def test_any_operand_is_typed_or_rejected(name: str) -> None:
    tried = 0
    for sample in OPS[name].samples:
        for changed in () if sample.error else strange(sample):
            tried += 1
            try:
                sample_node(changed)
            except ModelError as error:
                assert str(error)
            except Exception as error:
                raise AssertionError(
                    f"{changed.op} on {[str(a and a.type) for a in changed.inputs]}"
                ) from error
    assert tried or not any(sample.inputs for sample in OPS[name].samples if not sample.error)

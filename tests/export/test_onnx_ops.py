"""All samples of ops that ONNX can express. The exported nodes pass ONNX's checker, have the same results
when they are imported again, and give the same in ONNX Runtime or in ONNX's own reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import graphwright.ops
from graphwright.errors import ModelError
from graphwright.export.onnx import write_model
from graphwright.export.onnx.writer import _ir_version
from graphwright.frontends.onnx import load
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.op import Sample, Trait, registered_ops
from tests.export.peers import run_by_a_peer
from tests.ops.support import arrays_of, assert_close, noted, run_reference, sample_node

CHECKER_DIFFERS = {
    "ArgMax-8",  # an axis of a scalar
    "ArgMin-8",
    "ConvTranspose-5",  # SAME where the stride is more than the kernel
    "Einsum-8",  # ellipses of different ranks
    "MeanVarianceNormalization-1",  # its function has a constant of f32
    "MeanVarianceNormalization-2",
    "Reshape-7",  # -1 with a size of 0
}
"""Samples that the shape inference of ONNX's checker refuses, or infers otherwise."""
NOT_WRITTEN = {
    "Conv-11", "Conv-12", *(f"MatMul-{k}" for k in range(5, 10)),  # products of bf16 with sums of f32
    *(f"GroupedMatMul-{k}" for k in range(5, 9)),
    "ScaledDotProductAttention-2", "ScaledDotProductAttention-3",
    *(f"{op}-{k}" for op in ("PRelu", "Pow") for k in (0, 5, 6, 7, 8)), "STFT-12", "Shrink-3",  # dtypes
    "Range-4",  # of bf16, which is newer than the checker
    "SizesHold-0", "SizesHold-1",  # its sizes are those of inputs, which a lone node does not show
}  # fmt: skip
"""Samples that ONNX has no nodes for."""
NO_PEER = {
    "AffineGrid-6", "MelWeightMatrix-7",  # nothing, an empty range
    "DeformConv-6", "DeformConv-7", "LRN-3",  # other ranks than 4
    "GlobalLpPool-1", "MaxRoiPool-1", "ImageDecoder-3", "MeanVarianceNormalization-1", "QLinearMatMul-6",
    "MatMulInteger-6", "MatMulInteger-9",  # a zero point for each row
    *(f"QLinearMatMul-{k}" for k in (2, 5, 10, 11)),
    "Reshape-7",
}  # fmt: skip
"""Samples that neither ONNX Runtime nor ONNX's reference runs."""
PEERS_DIFFER = {
    "Cast-14", "Cast-15", "Cast-16", "Cast-17", "Cast-18", "Cast-19",  # NaN of f8e8m0
    "ConvTranspose-5",
    "CumProd-9", "CumSum-9", "NonZero-2",  # a scalar counts as a vector
    "DFT-14",  # an inverse of half a spectrum
    "Det-3",  # in f64
    "GlobalMaxPool-1",  # all axes but the first
    "GridSample-26", "GridSample-27", "GridSample-28",  # halves are rounded otherwise
    "LRN-1",  # in f32
    "MatMulInteger-11",  # no columns leave memory as it was
    "Pad-10", "Trilu-4",  # texts are filled with 0
    "Pow-1", "Pow-2",  # negative exponents of integers
    "ReduceLogSumExp-3",  # integers are truncated before
    "ReduceMean-10",  # the mean of nothing
    "StringNormalizer-0", "StringNormalizer-4", "StringSplit-1", "StringSplit-2", "StringSplit-3",
    "Unique-11",  # NaNs are equal
    "Unique-14",  # ends the process
}  # fmt: skip
"""Samples that ONNX Runtime, or ONNX's reference, computes otherwise than the standard or NumPy says."""

graphwright.ops.load()
OPS = {
    name: cls for name, cls in registered_ops().items()
    if cls.to_onnx is not None and cls.__module__.startswith("graphwright.ops.")
}  # fmt: skip
SAMPLES = {
    op: [(f"{op}-{k}", sample) for k, sample in enumerate(cls.samples) if not sample.error]
    for op, cls in OPS.items()
    if Trait.EFFECT not in cls.traits
}


@pytest.mark.parametrize("op", SAMPLES)
def test_the_nodes_of_an_op_mean_what_it_does(op: str) -> None:
    for name, sample in SAMPLES[op]:
        with noted(name):
            check(name, sample)


def check(name: str, sample: Sample) -> None:
    """Writes a sample as ONNX, and compares what becomes of it here and in a peer."""
    module, _, _ = sample_node(sample)
    if name in NOT_WRITTEN:
        with pytest.raises(ModelError, match="cannot be written"):
            write_model(module)
        return
    model = write_model(module).with_weights()
    known = all(value.type.shape is not None for value in module.main.outputs)
    if known:  # the checker wants a rank of every output
        onnx.checker.check_model(model, full_check=name not in CHECKER_DIFFERS)
    arrays = arrays_of(sample)
    expected = run_reference(sample.op, arrays)
    pairs = zip(arrays, sample.inputs, strict=True)
    feeds: list[Any] = [a for a, wanted in pairs if wanted is not None and wanted.values is None]
    for given, wanted in zip(evaluate_module(load(model), feeds), expected, strict=True):
        assert_close(given, wanted, "read again", tolerance(wanted))
    names = [value.name for value in model.graph.input]
    if name in PEERS_DIFFER:
        return
    found = run_by_a_peer(model, dict(zip(names, feeds, strict=True)))
    assert (found is None) == (name in NO_PEER)
    if found is None:
        return
    for given, wanted in zip(found, expected, strict=True):
        assert_close(like(given, wanted), wanted, "a peer", tolerance(wanted))


def tolerance(wanted: Any) -> float:
    """Attributes of ONNX are f32, also where operands are f64."""
    return 1e6 if getattr(wanted, "dtype", None) == np.float64 else 10


def like(given: Any, wanted: Any) -> Any:
    """Peers have no NumPy type for floats of 8 bits, and texts of a fixed length."""
    if isinstance(given, list) or wanted is None:
        return given
    array = np.asarray(given)
    if array.dtype == np.uint8:
        return array.view(wanted.dtype) if wanted.dtype.itemsize == 1 else array
    return array.astype(object) if array.dtype.kind == "U" else array


def test_an_opset_later_than_the_installed_onnx_has_the_latest_ir_version() -> None:
    """onnx 1.17 ends at opset 22; ops that are added later are written all the same."""
    assert _ir_version(13) == 7
    assert _ir_version(1000) == max(row[1] for row in onnx.helper.VERSION_TABLE)

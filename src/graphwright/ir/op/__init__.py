"""What an op is: its contract and registry, what its methods receive, and its samples.

``contract.py`` shows a minimal op. Ops with regions have the base classes of ``region_op.py``, and optional
interfaces are in :mod:`graphwright.ir.interfaces`.
"""

from graphwright.ir.op.contract import ConstRef, Op, ReductionOp, Trait, dtype_field, reduction_op
from graphwright.ir.op.importer import AtenImport, AtenImporter, Import, Importer, OnnxImporter
from graphwright.ir.op.inference import (
    Array,
    DtypeError,
    Fact,
    Inference,
    InferError,
    facts_elements,
    is_known,
)
from graphwright.ir.op.registry import OpType, family, op, op_class, registered_ops
from graphwright.ir.op.sample import Arg, Sample, arg
from graphwright.ir.types import UnknownRank

__all__ = [
    "Arg",
    "Array",
    "AtenImport",
    "AtenImporter",
    "ConstRef",
    "DtypeError",
    "Fact",
    "Import",
    "Importer",
    "InferError",
    "Inference",
    "OnnxImporter",
    "Op",
    "OpType",
    "ReductionOp",
    "Sample",
    "Trait",
    "UnknownRank",
    "arg",
    "dtype_field",
    "facts_elements",
    "family",
    "is_known",
    "op",
    "op_class",
    "reduction_op",
    "registered_ops",
]

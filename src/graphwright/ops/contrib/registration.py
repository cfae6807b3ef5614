"""Registration of the import functions of ONNX Runtime's own ops, which its optimizer writes into models."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Import, OnnxImporter, Op
from graphwright.ops.contrib.attribute_names import attribute_names

DOMAIN = "com.microsoft"


def register_contrib(cls: type[Op], **imports: Import) -> None:
    """Adds import functions, by the names of ops of the domain, to ``cls``, the main op of their results."""
    cls.onnx = {**cls.onnx, **{(name, 1, DOMAIN): _checked(name, each) for name, each in imports.items()}}


def _checked(name: str, convert: Import) -> Import:
    """``convert``, which raises Fault for attributes that the op does not have: a newer op may have them,
    whose meaning is not known here.
    """
    known = attribute_names(name)
    if known is None:
        return convert

    def checked(i: OnnxImporter) -> Any:
        unknown = ", ".join(repr(each) for each in i.attributes if each not in known)
        if unknown:
            listed = ", ".join(sorted(known)) or "none"
            raise i.fail(f"there is no attribute {unknown}", f"its attributes are: {listed}")
        return convert(i)

    return checked

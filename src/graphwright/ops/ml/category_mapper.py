"""Import of CategoryMapper, which maps strings to integers, or integers to strings, as LabelEncoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Importer
from graphwright.ir.types import STRING
from graphwright.ops.ml.label_encoder import LabelEncoder
from graphwright.ops.ml.post_transforms import DOMAIN


def _import(i: Importer) -> Any:
    """The dtype of the input determines the direction. Of equal keys, the last one counts."""
    strings, integers = (
        np.array(i.attr("cats_strings", ()), object),
        np.array(i.attr("cats_int64s", ()), np.int64),
    )
    if strings.size != integers.size:
        raise i.fail(
            f"{strings.size} cats_strings and {integers.size} cats_int64s: their numbers must be equal"
        )
    if i.input(0).type.dtype == STRING:
        default: Any = np.asarray(i.attr("default_int64", -1), np.int64)
        keys, values = strings, integers
    else:
        default = np.asarray(i.attr("default_string", "_Unused"), object)
        keys, values = integers, strings
    return i.emit(LabelEncoder(), i.input(0), *map(i.const, (keys[::-1], values[::-1], default)))


LabelEncoder.onnx = {**LabelEncoder.onnx, ("CategoryMapper", 1, DOMAIN): _import}

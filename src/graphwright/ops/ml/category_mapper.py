"""CategoryMapper: texts to the integers that stand for them, or back."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Importer
from graphwright.ir.types import STRING
from graphwright.ops.ml.label_encoder import LabelEncoder
from graphwright.ops.ml.post_transforms import DOMAIN


def _import(i: Importer) -> Any:
    """A LabelEncoder whose keys and values the input's dtype tells apart; the last of equal keys counts."""
    texts, integers = (
        np.array(i.attr("cats_strings", ()), object),
        np.array(i.attr("cats_int64s", ()), np.int64),
    )
    if texts.size != integers.size:
        raise i.fail(f"{texts.size} cats_strings, {integers.size} cats_int64s: there must be as many of each")
    if i.input(0).type.dtype == STRING:
        default: Any = np.asarray(i.attr("default_int64", -1), np.int64)
        keys, values = texts, integers
    else:
        default = np.asarray(i.attr("default_string", "_Unused"), object)
        keys, values = integers, texts
    return i.emit(LabelEncoder(), i.input(0), *map(i.const, (keys[::-1], values[::-1], default)))


LabelEncoder.onnx = {**LabelEncoder.onnx, ("CategoryMapper", 1, DOMAIN): _import}

"""Packing of weights for convolutions, in NumPy: the layouts byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphwright.ir.types import Layout
from graphwright.kernels.conv import conv
from graphwright.kernels.library.pack import panels
from graphwright.targets.cpu.isa import Isa

Array = npt.NDArray[Any]


def conv_panels(w: Array, groups: int, mr: int) -> Array:
    """Weights [Cout, Cin/groups, kh, kw] as [groups, ceil(Cout/groups/mr), Cin/groups * kh * kw, mr]."""
    cout = w.shape[0]
    matrix = w.reshape(groups, cout // groups, int(np.prod(w.shape[1:])))
    return np.ascontiguousarray(np.moveaxis(panels(matrix, 1, mr), 2, 3))


def conv_layout(isa: Isa) -> Layout:
    """The layout of packed weights [groups, Cout/groups, Cin/groups * kh * kw].

    With one group, or if Cout/groups is a multiple of ``mr``, the bytes are the same as those of
    [Cout, Cin/groups, kh, kw] with axis 0 cut into blocks, ``Layout((0, 1, 2, 3), ((0, mr),))``.
    """
    return Layout((0, 1, 2), ((1, conv.panel_rows(isa)),), zero_padded=True)

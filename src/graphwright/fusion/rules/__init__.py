"""The built-in fusion rules, one file each. ``BUILT_IN`` lists them in order: the first rule that matches
decides.
"""

from __future__ import annotations

from typing import Final

from graphwright.fusion.rules.attention import ATTENTION
from graphwright.fusion.rules.bands import BANDS
from graphwright.fusion.rules.base import FusionRule, KernelRule, ReplaceRule
from graphwright.fusion.rules.epilogue import EPILOGUE
from graphwright.fusion.rules.pointwise import POINTWISE
from graphwright.fusion.rules.reduction_input import REDUCTION_INPUT
from graphwright.fusion.rules.resize import RESIZE
from graphwright.fusion.rules.row import ROW
from graphwright.fusion.rules.scale import SCALE
from graphwright.fusion.rules.siblings import SIBLINGS
from graphwright.fusion.rules.split import SPLIT
from graphwright.fusion.rules.table import TABLE
from graphwright.fusion.rules.view import VIEW

BUILT_IN: Final[tuple[FusionRule | KernelRule | ReplaceRule, ...]] = (
    ATTENTION,
    RESIZE,
    SCALE,
    SPLIT,
    TABLE,
    SIBLINGS,
    EPILOGUE,
    VIEW,
    ROW,
    REDUCTION_INPUT,
    POINTWISE,
    BANDS,
)

"""Inputs of a model with a default value, which became constants: the module's metadata lists their names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

OVERRIDABLE = "graphwright.overridable_inputs"
"""Metadata key of a JSON list: the inputs with a default value, which became constants."""


def constant_hint(names: Iterable[str], metadata: Mapping[str, str]) -> str:
    """The beginning of a hint about those of the unknown inputs ``names`` that became constants; or empty."""
    if OVERRIDABLE not in metadata:
        return ""
    constants = _names(metadata[OVERRIDABLE])
    found = [name for name in names if name in constants]
    if not found:
        return ""
    values = ", ".join(f"{name!r}: ..." for name in found)
    subject, verb = (
        ("it has a default value", "is") if len(found) == 1 else ("they have default values", "are")
    )
    return (
        f"{subject}, which {verb} compiled as a constant; compile with constants={{{values}}} for another; "
    )


def _names(text: str) -> frozenset[str]:
    """The names in ``text``, which a model from elsewhere may have replaced by something else."""
    try:
        found = json.loads(text)
    except ValueError:
        return frozenset()
    return (
        frozenset(name for name in found if isinstance(name, str)) if isinstance(found, list) else frozenset()
    )

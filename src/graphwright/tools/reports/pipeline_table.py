"""The text of ``graphwright --stages``."""

from __future__ import annotations

from graphwright.compiler.pipeline import STAGES, Stage, passes_of
from graphwright.targets.cpu.target import TARGETS


def pipeline_text() -> str:
    """A description of each stage, and the names of its passes, which ``--print-after`` accepts."""
    width = max(len(stage.name) for stage in STAGES)
    lines = []
    for stage in STAGES:
        lines.append(f"{stage.name:{width}}  {stage.does}")
        if names := pass_names(stage):
            lines.append(f"{'':{width}}  ({', '.join(names)})")
    return "\n".join(lines)


def pass_names(stage: Stage) -> list[str]:
    """The names of the passes of ``stage``, each once."""
    return list(dict.fromkeys(each.name for each in passes_of(stage, next(iter(TARGETS.values())))))

"""The flags of commands that compile a model and run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphwright.config import Options
from graphwright.records import dataclass
from graphwright.runtime.model import Model
from graphwright.tools.arguments import Constants, Feeds, Seed, Shapes, Sizes, parse_shapes
from graphwright.tools.feeds import make_feeds
from graphwright.tools.flags import FlagGroup
from graphwright.tools.models import CompileFlags


@dataclass(frozen=True)
class InputFlags(FlagGroup):
    """The inputs of a run: those that are given, and the sizes and the seed of random ones."""

    input: Feeds = None
    shape: Shapes = None
    seed: Seed = 0

    @property
    def sizes(self) -> Sizes:
        """The sizes of --shape."""
        return parse_shapes(self.shape)


@dataclass(frozen=True)
class RunFlags(InputFlags):
    """The inputs of a run, and the sizes and constants for which the model is compiled."""

    const: Constants = None

    def open(self, path: Path, options: Options) -> Model:
        """The model in a file, ready to run; compilation shows its progress."""
        return CompileFlags(shape=self.shape, const=self.const).open(path, options)

    def feeds(self, model: Model) -> dict[str, Any]:
        """The given inputs of ``model``, and random ones for the rest."""
        return make_feeds(model.inputs, self.input, self.sizes, self.seed, model.entry.constraints)

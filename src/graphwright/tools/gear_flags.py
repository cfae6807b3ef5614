"""The flags about gears: shapes by input, batch sizes, image sizes, and the treatment of other shapes."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from graphwright.gears import Gears
from graphwright.records import dataclass
from graphwright.tools.arguments import flag, named_sizes
from graphwright.tools.flags import FlagGroup


class Between(enum.StrEnum):
    """The treatment of shapes that are not a gear."""

    ERROR = "error"
    PAD = "pad"
    DYNAMIC = "dynamic"


class Combine(enum.StrEnum):
    """How the shapes of several inputs are combined to gears."""

    ZIP = "zip"
    PRODUCT = "product"


_PANEL = "Gears: programs for a few shapes in one package"
GearShapes = Annotated[
    list[str] | None,
    flag(
        "--gears",
        "NAME:SIZES;SIZES...",
        "Shapes of an input, as in 'x:1,3,224,224;4,3,224,224'; ? is the model's own size. Repeatable.",
        _PANEL,
    ),
]
Batches = Annotated[
    str | None,
    flag(
        "--dynamic-batch",
        "SIZES",
        "Batch sizes, for the first axis of every input where it is dynamic, as in 1,2,4,8.",
        _PANEL,
    ),
]
Images = Annotated[
    str | None,
    flag("--dynamic-image", "HxW,HxW...", "Heights and widths of images, as in 224x224,640x640.", _PANEL),
]
Combined = Annotated[
    Combine,
    typer.Option(
        "--combine",
        help="How shapes of several inputs are combined: zip pairs them in order, product makes all "
        "combinations.",
        rich_help_panel=_PANEL,
    ),
]
Others = Annotated[
    Between,
    typer.Option(
        "--between",
        help=(
            "What happens to other shapes. error: the run fails. pad: inputs are padded to the smallest gear "
            "that contains them, if this provably does not change results. dynamic: a program for all shapes "
            "runs them."
        ),
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class GearFlags(FlagGroup):
    """The flags about gears."""

    gears: GearShapes = None
    dynamic_batch: Batches = None
    dynamic_image: Images = None
    combine: Combined = Combine.ZIP
    between: Others = Between.ERROR

    def requested(self) -> Gears | None:
        """The gears that the flags request; None if they request none."""
        if not (self.gears or self.dynamic_batch or self.dynamic_image):
            if self.combine is not Combine.ZIP or self.between is not Between.ERROR:
                raise typer.BadParameter(
                    "--between and --combine need gears: give --gears, --dynamic-batch or --dynamic-image"
                )
            return None
        named = [_parse_shapes(text) for text in self.gears or ()]
        given = dict(named)
        if len(given) < len(named):
            raise typer.BadParameter(
                "an input is named twice: separate its shapes by ;", param_hint="--gears"
            )
        batch = self.dynamic_batch
        batches = _numbers(batch, ",", "--dynamic-batch", "1,2,4,8") if batch else []
        images = [_image(text) for text in self.dynamic_image.split(",")] if self.dynamic_image else []
        return Gears(given, batches, images, self.combine.value, self.between.value)


def _parse_shapes(text: str) -> tuple[str, list[list[int | None]]]:
    form = "NAME:SIZES;SIZES, such as x:1,3,224,224;4,3,224,224"
    name, shapes = named_sizes(text, "--gears", form)
    return name, [[_size(size.strip(), text) for size in shape.split(",")] for shape in shapes.split(";")]


def _size(text: str, whole: str) -> int | None:
    if text == "?":
        return None
    if text.isascii() and text.isdecimal():
        return int(text)
    raise typer.BadParameter(f"{text!r} in {whole!r} is not a size: give a number or ?", param_hint="--gears")


def _image(text: str) -> tuple[int, int]:
    sizes = _numbers(text.strip(), "x", "--dynamic-image", "224x224,640x640")
    if len(sizes) != 2:
        raise typer.BadParameter(
            f"{text!r} is not a height and width such as 224x224", param_hint="--dynamic-image"
        )
    return sizes[0], sizes[1]


def _numbers(text: str, separator: str, flag: str, example: str) -> list[int]:
    parts = [part.strip() for part in text.split(separator)]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers; an example is {example}", param_hint=flag
        )
    return list(map(int, parts))

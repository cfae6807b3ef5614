"""``graphwright explain``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import graphwright.ops
from graphwright.config import Options
from graphwright.package.package import Package
from graphwright.records import dataclass
from graphwright.runtime.model import Model
from graphwright.support.whole_file import whole_file
from graphwright.tools.arguments import AsJson, Feeds, NewModel, require_folder
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note, say
from graphwright.tools.feeds import make_feeds
from graphwright.tools.flags import FlagGroup, with_options
from graphwright.tools.measuring.predictions import measure
from graphwright.tools.models import ModelFlags, is_package
from graphwright.tools.reports.explain_html import page
from graphwright.tools.reports.explanation import FORMAT, Explanation
from graphwright.tools.reports.fusion_table import show_changes, show_fusion, show_why_not
from graphwright.tools.reports.kernel_table import kernel_facts, show_kernels
from graphwright.tools.reports.layout_table import layout_facts, show_layouts
from graphwright.tools.reports.measured_table import show_measured
from graphwright.tools.reports.pass_table import pass_facts, show_passes
from graphwright.tools.reports.shape_table import shape_facts, show_shapes

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class _Request(FlagGroup):
    """The flags that say what to explain, and where the answer goes."""

    why_not: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="Show the first reason why one kernel does not compute both nodes.",
            show_default=False,
        ),
    ] = None
    diff: Annotated[
        bool, typer.Option("--diff", help="Show which decisions of NEW differ from those of MODEL.")
    ] = False
    measured: Annotated[
        bool,
        typer.Option(
            "--measure",
            help=(
                "Run the model on one thread: compare predicted and measured time of each task, and the "
                "largest merges with their ops run separately."
            ),
        ),
    ] = False
    input: Feeds = None
    passes: Annotated[
        bool, typer.Option("--passes", help="Show what each pass did and what it declined, with the reason.")
    ] = False
    layouts: Annotated[
        bool,
        typer.Option(
            "--layouts", help="Show the layout of each value, which nodes requested it, and the conversions."
        ),
    ] = False
    shapes: Annotated[
        bool, typer.Option("--shapes", help="Show the dynamic dimensions, and what determines each.")
    ] = False
    kernels: Annotated[
        bool,
        typer.Option(
            "--kernels",
            help="Show the candidate kernels of each task, their predicted times, and why one was chosen.",
        ),
    ] = False
    as_json: AsJson = False
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write everything to one self-contained HTML file.", show_default=False
        ),
    ] = None

    @property
    def sections(self) -> list[str]:
        """The requested decisions other than fusion."""
        return [name for name in _SECTIONS if getattr(self, name)]

    def require_one_answer(self, new: Path | None) -> None:
        """Raises an error unless the flags ask for one answer, about one model or about two."""
        has_pair, has_page, sections = self.why_not is not None, self.html is not None, self.sections
        if self.diff != (new is not None):
            raise typer.BadParameter(
                "it needs two models, as in: explain old.om new.om --diff", param_hint="--diff"
            )
        if sum((has_pair, self.diff, self.as_json, has_page)) > 1:
            raise typer.BadParameter("use only one of --why-not, --diff, --json and --html")
        if self.measured and (has_pair or self.diff or has_page):
            raise typer.BadParameter("it can only be combined with --json", param_hint="--measure")
        if self.input and not self.measured:
            raise typer.BadParameter(
                "it needs --measure, because nothing else runs the model", param_hint="--input"
            )
        if len(sections) + has_pair + self.diff + has_page + self.measured > 1:
            raise typer.BadParameter(
                "use only one of --passes, --layouts, --shapes and --kernels, alone or with --json"
            )
        require_folder(self.html, "--html")


@app.command(cls=Command)
@with_options
def explain(
    *,
    model: ModelPath,
    new: NewModel = None,
    flags: ModelFlags,
    request: _Request,
    options: Options,
) -> None:
    """Explain what the compiler did, and why: which nodes are fused, and which are not.

    Shows the bytes that kernels read and write, the largest gains by rule, and the largest misses by code.
    Lines do not add up, because each edit is counted on its own. Dynamic dimensions are estimated unless
    --shape gives them. --passes, --layouts, --shapes and --kernels show the other decisions, each on one
    screen.

    [bold]Examples[/bold]

      graphwright explain model.om
      graphwright explain model.onnx --why-not Conv_4 Add_7
      graphwright explain model.onnx --measure --shape x:1,3,224,224
      graphwright explain model.om --passes
      graphwright explain model.om --kernels --json
      graphwright explain model.om --json
      graphwright explain model.om --html fusion.html
      graphwright explain old.om new.om --diff
    """
    request.require_one_answer(new)
    graphwright.ops.load()

    if request.measured:
        _show_measured(flags.open_entry(model, options), flags, request, options)
        return
    package = _package(model, flags, options)
    if request.sections:
        _show_section(package, request.sections[0], as_json=request.as_json)
    elif request.as_json:
        _show_json(package)
    elif request.html is not None:
        _write_page(request.html, model.name, Explanation.of(package))
    elif new is not None:
        show_changes(Explanation.of(package), Explanation.of(_package(new, flags, options)))
    elif request.why_not is not None:
        show_why_not(Explanation.of(package), *request.why_not)
    else:
        show_fusion(Explanation.of(package))


_SECTIONS: Final[Mapping[str, tuple[Callable[[Package], Any], Callable[[Package], None]]]] = {
    "passes": (pass_facts, show_passes),
    "layouts": (layout_facts, show_layouts),
    "shapes": (shape_facts, show_shapes),
    "kernels": (kernel_facts, show_kernels),
}
"""The flags for decisions other than fusion: for each, the function that makes the JSON facts, and the one
that shows them.
"""


def _show_section(package: Package, name: str, *, as_json: bool) -> None:
    facts, show = _SECTIONS[name]
    if as_json:
        say(json.dumps({"format": FORMAT, name: facts(package)}, indent=2))
        return
    show(package)
    if not package.trusted and name in ("shapes", "kernels"):
        note("the package is not trusted, so its tasks are not read: use --trust")
    if not package.main.remarks and name != "shapes":
        note("the package keeps no remarks of its compilation: compile the model again")


def _package(path: Path, flags: ModelFlags, options: Options) -> Package:
    """The package in a file, without loading its kernels; another model is compiled."""
    if flags.shape and is_package(path):
        message = "a package is compiled already: give the .onnx model, or --measure, which runs these sizes"
        raise typer.BadParameter(message, param_hint="--shape")
    return flags.read_package(path, options) or flags.open_entry(path, options).entry_package()


def _show_json(package: Package) -> None:
    facts = {name: facts_of(package) for name, (facts_of, _) in _SECTIONS.items()}
    say(json.dumps({**Explanation.of(package).facts(), **facts}, indent=2))


def _write_page(path: Path, name: str, explained: Explanation) -> None:
    with whole_file(path) as file:
        file.write(page(name, explained).encode())
    note(f"wrote {path}")


def _show_measured(model: Model, flags: ModelFlags, request: _Request, options: Options) -> None:
    feeds = make_feeds(model.inputs, request.input, flags.sizes, constraints=model.entry.constraints)
    found = measure(model, feeds, options)
    if request.as_json:
        facts = {**Explanation.of(model.entry_package()).facts(), "measured": found.facts()}
        say(json.dumps(facts, indent=2))
        return
    show_measured(found)

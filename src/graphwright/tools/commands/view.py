"""``graphwright view``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import graphwright.ops
from graphwright.config import Options
from graphwright.errors import FeedError
from graphwright.package.package import Package
from graphwright.records import dataclass
from graphwright.runtime.model import Model
from graphwright.support.file_kinds import EXPORTED, TORCHSCRIPT, kind_of_file
from graphwright.support.message_text import did_you_mean
from graphwright.support.units import bytes_text
from graphwright.support.whole_file import whole_file
from graphwright.tools.arguments import Feeds, NewModel, Sizes, parse_constants, require_folder
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note
from graphwright.tools.feeds import input_sizes, make_feeds
from graphwright.tools.flags import STANDARD_INPUT, FlagGroup, with_options
from graphwright.tools.measuring.bench import task_times
from graphwright.tools.models import ModelFlags, is_package
from graphwright.tools.progress import StageTimer, stages
from graphwright.tools.value_errors import value_errors
from graphwright.view.document import Compilation, document_of
from graphwright.view.onnx_file import onnx_model
from graphwright.view.page import page_of
from graphwright.view.picture import GraphPicture
from graphwright.view.stages import NAMES, TASKS, PictureObserver, compilation_of, pictures_of_package

if TYPE_CHECKING:
    from graphwright.compiler.run_passes import Observer

RUNS: Final = 11
"""The number of runs; the time of a task is the median."""
_COMPARED: Final = ("fused", "laid-out")
"""The stages for ``--diff``, in order of preference: the first one that both models have is shown."""
app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class _Request(FlagGroup):
    """The flags that say what to draw, and the file to write."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The page to write; default: MODEL.html in this folder.",
            show_default=False,
        ),
    ] = None
    stage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Show only this stage: {', '.join(NAMES)}. Repeatable.",
            show_default=False,
        ),
    ] = None
    around: Annotated[
        str | None,
        typer.Option(
            "--pass",
            metavar="PASS",
            help="Show the graph before and after this pass, side by side.",
            show_default=False,
        ),
    ] = None
    diff: Annotated[bool, typer.Option("--diff", help="Show MODEL and NEW side by side.")] = False
    onnx: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Write the stage of --stage (default: the last graph) as an ONNX model for viewers, "
                "instead of the page."
            ),
            show_default=False,
        ),
    ] = None
    measured: Annotated[
        bool,
        typer.Option("--measure", help="Run the model on one thread, and show the time of each task."),
    ] = False
    checked: Annotated[
        bool,
        typer.Option(
            "--check",
            help=(
                "Run the model, and show the error of each value in memory, compared with an evaluation "
                "in f64."
            ),
        ),
    ] = False
    input: Feeds = None

    def require_consistent(self, models: Sequence[Path]) -> None:
        """Raises an error for flags that exclude each other, or that do not fit the models."""
        if self.diff != (len(models) == 2):
            raise typer.BadParameter(
                "it needs two models, as in: view old.om new.om --diff", param_hint="--diff"
            )
        if self.onnx is not None and (self.diff or self.output is not None or len(self.stage or ()) > 1):
            raise typer.BadParameter("it writes one stage of one model, and no page", param_hint="--onnx")
        if self.input and not (self.measured or self.checked):
            raise typer.BadParameter(
                "it needs --measure or --check, because nothing else runs the model", param_hint="--input"
            )
        if self.checked and not all(map(_is_onnx, models)):
            raise typer.BadParameter(
                "it needs .onnx models, whose evaluation in f64 is the reference", param_hint="--check"
            )
        _require_stages(self.stage)

    def target(self, models: Sequence[Path]) -> Path:
        """The file to write. Raises an error for one that cannot be written."""
        target = self.onnx or self.output or _default_output(models[0])
        _require_target(target, models, "--output" if self.onnx is None else "--onnx")
        return target


@app.command(cls=Command)
@with_options
def view(
    *,
    model: ModelPath,
    new: NewModel = None,
    request: _Request,
    flags: ModelFlags,
    options: Options,
) -> None:
    """Draw a model as an HTML page: its graph at each stage, fused regions, kernels and tasks.

    The page is one self-contained file. A box is a node or a group of nodes that can be opened: a scope of
    the model, equal layers, a fused region. A selection is linked to the same nodes at other stages. A
    package contains only the last stages.

    [bold]Examples[/bold]

      graphwright view model.onnx
      graphwright view model.onnx -o model.html --shape x:1,3,224,224 --measure
      graphwright view model.onnx --stage fused --stage tasks
      graphwright view model.onnx --pass fuse
      graphwright view model.om
      graphwright view old.om new.om --diff
      graphwright view model.onnx --stage fused --onnx fused.onnx
    """
    models = [model] if new is None else [model, new]
    request.require_consistent(models)
    target = request.target(models)
    graphwright.ops.load()

    shown = [_compilation(each, request, flags, options) for each in models]
    content = _page(model.name, shown, request) if request.onnx is None else _onnx(model.name, shown, request)
    with whole_file(target) as file:
        file.write(content)
    note(f"wrote {target} ({bytes_text(target.stat().st_size)})")


def _page(title: str, shown: Sequence[Compilation], request: _Request) -> bytes:
    return page_of(title, document_of(shown, _starts(shown, request.around))).encode()


def _onnx(name: str, shown: Sequence[Compilation], request: _Request) -> bytes:
    """The requested stage as an ONNX model, or else the last one that is a graph."""
    graphs = [picture for picture in shown[0].pictures if request.stage or picture.stage != TASKS]
    content: bytes = onnx_model(graphs[-1], name).SerializeToString(deterministic=True)
    return content


def _default_output(model: Path) -> Path:
    if model.name == STANDARD_INPUT:
        message = "is required if the model comes from standard input or a pipe, as in -o model.html"
        raise typer.BadParameter(message, param_hint="--output")
    return Path(f"{model.stem}.html")


def _is_onnx(path: Path) -> bool:
    return not is_package(path) and kind_of_file(path) not in (EXPORTED, TORCHSCRIPT)


def _require_target(target: Path, models: Sequence[Path], flag: str) -> None:
    """Raises an error for a path that cannot be written, or that would replace a model."""
    require_folder(target, flag)
    if target.exists() and any(each.exists() and target.samefile(each) for each in models):
        raise typer.BadParameter(f"{str(target)!r} is the model itself", param_hint=flag)


def _require_stages(given: Sequence[str] | None) -> None:
    for name in given or ():
        if name not in NAMES:
            hint = f"{did_you_mean([name], NAMES)}the stages are {', '.join(map(repr, NAMES))}"
            raise typer.BadParameter(f"there is no stage {name!r}: {hint}", param_hint="--stage")


def _compilation(path: Path, request: _Request, flags: ModelFlags, options: Options) -> Compilation:
    observer = PictureObserver(request.around or "")
    with stages(StageTimer()) as observe:

        def both(name: str, product: object) -> None:
            observe(name, product)
            observer(name, product)

        package, model = _opened(path, request, flags, options, both)
    sizes = _sizes(package, flags.sizes)
    times = _times(model, request, flags) if request.measured and model is not None else {}
    pictures = observer.pictures(sizes, times) or pictures_of_package(package, sizes, times)
    if request.checked:
        errors = _errors(path, pictures, request, flags, options)
        pictures = [picture.with_errors(errors) for picture in pictures]
    chosen = [each for each in pictures if not request.stage or each.stage in request.stage]
    if not chosen:
        held = ", ".join(repr(each.stage) for each in pictures)
        message = f"{path.name} has none of them: it has {held}"
        raise typer.BadParameter(message, param_hint="--stage")
    if request.around:
        chosen = [*_changed(observer, request.around), *chosen]
    return compilation_of(path.name, package, chosen)


def _errors(
    path: Path, pictures: Sequence[GraphPicture], request: _Request, flags: ModelFlags, options: Options
) -> dict[str, float]:
    """The errors of the results of nodes and regions of the last graph, by name."""
    last = next(picture for picture in reversed(pictures) if picture.stage != TASKS)
    regions = [group.node for group in last.groups if group.node is not None]
    alone = [node for node in last.nodes if last.groups[node.group].node is None]
    return value_errors(
        path,
        [name for node in (*regions, *alone) for name in node.results],
        options,
        shapes=flags.sizes,
        constants=parse_constants(flags.const),
        given=request.input,
    )


def _changed(observer: PictureObserver, around: str) -> Sequence[GraphPicture]:
    if observer.changed is None:
        message = f"no pass {around!r} ran that changed the graph: --print-after-all of compile shows all"
        raise typer.BadParameter(message, param_hint="--pass")
    return observer.changed


def _starts(shown: Sequence[Compilation], around: str | None) -> list[int]:
    """The stages that are shown first: those before and after the pass, or the same stage of both models."""
    if len(shown) == 1:
        return [0, 1] if around else [0]
    first, second = ([picture.stage for picture in each.pictures] for each in shown)
    common = [name for name in first if name in second]
    if not common:
        return [0, len(first)]
    name = next((name for name in common if name in _COMPARED), common[0])
    return [first.index(name), len(first) + second.index(name)]


def _opened(
    path: Path, request: _Request, flags: ModelFlags, options: Options, observe: Observer
) -> tuple[Package, Model | None]:
    """The package of a model; also the model if it was compiled here or will run."""
    package = None if request.measured else flags.read_package(path, options)
    if package is not None:
        return package, None
    opened = flags.open_entry(path, options, observe=observe)
    return opened.entry_package(), opened


def _sizes(package: Package, given: Sizes) -> Mapping[str, Sequence[int]]:
    """The known shapes of inputs; predictions estimate the others."""
    try:
        return input_sizes(package.main.feeds, given)
    except FeedError:
        return {}


def _times(model: Model, request: _Request, flags: ModelFlags) -> dict[int, float]:
    """Nanoseconds of each task by number."""
    feeds = make_feeds(model.inputs, request.input, flags.sizes, constraints=model.entry.constraints)
    return {row.task: row.median_ns for row in task_times(model, feeds, RUNS, threads=1)}

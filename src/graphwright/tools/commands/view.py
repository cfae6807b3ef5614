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
from graphwright.support.spelling import did_you_mean
from graphwright.support.whole_file import whole_file
from graphwright.tools.arguments import Feeds, NewModel, Sizes, parse_constants, require_folder
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.console import bytes_text, note
from graphwright.tools.feeds import input_sizes, make_feeds
from graphwright.tools.flags import STANDARD_INPUT, with_options
from graphwright.tools.measuring.bench import task_times
from graphwright.tools.models import ModelFlags, is_package
from graphwright.tools.progress import Watch, stages
from graphwright.tools.value_errors import value_errors
from graphwright.view.document import Compilation, document_of
from graphwright.view.onnx_file import onnx_model
from graphwright.view.page import page_of
from graphwright.view.picture import GraphPicture
from graphwright.view.stages import NAMES, TASKS, Watched, compilation_of, pictures_of_package

if TYPE_CHECKING:
    from graphwright.compiler.run_passes import Observer

RUNS: Final = 11
"""The number of runs; the time of a task is the median."""
_COMPARED: Final = ("fused", "laid-out")
"""The stages for ``--diff``, in order of preference: the first one that both models have is shown."""
app = typer.Typer(add_completion=False)


@app.command()
@with_options
def view(
    *,
    model: ModelPath,
    new: NewModel = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The page to write; default: MODEL.html in this folder.",
            show_default=False,
        ),
    ] = None,
    stage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Show only this stage: {', '.join(NAMES)}. Repeatable.",
            show_default=False,
        ),
    ] = None,
    around: Annotated[
        str | None,
        typer.Option(
            "--pass",
            metavar="PASS",
            help="Show the graph before and after this pass, side by side.",
            show_default=False,
        ),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show MODEL and NEW side by side.")] = False,
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
    ] = None,
    flags: ModelFlags,
    measured: Annotated[
        bool,
        typer.Option("--measure", help="Run the model on one thread, and show the time of each task."),
    ] = False,
    checked: Annotated[
        bool,
        typer.Option(
            "--check",
            help=(
                "Run the model, and show the error of each value in memory, compared with an evaluation "
                "in f64."
            ),
        ),
    ] = False,
    input: Feeds = None,
    options: Options,
) -> None:
    """Draw a model as an HTML page: its graph at each stage, fused regions, kernels and tasks.

    The page is one self-contained file. A box is a node or a group of nodes that can be opened: a scope of
    the model, equal layers, a fused region. A selection is linked to the same nodes at other stages. A
    package contains only the last stages.

    \b
    [bold]Examples[/bold]

    \b
      graphwright view model.onnx
      graphwright view model.onnx -o model.html --shape x:1,3,224,224 --measure
      graphwright view model.onnx --stage fused --stage tasks
      graphwright view model.onnx --pass fuse
      graphwright view model.om
      graphwright view old.om new.om --diff
      graphwright view model.onnx --stage fused --onnx fused.onnx
    """
    models = [model] if new is None else [model, new]
    if diff != (new is not None):
        raise typer.BadParameter("it needs two models, as in: view old.om new.om --diff", param_hint="--diff")
    if onnx is not None and (diff or output is not None or len(stage or ()) > 1):
        raise typer.BadParameter("it is one stage of one model, without a page", param_hint="--onnx")
    if input and not (measured or checked):
        raise typer.BadParameter(
            "it needs --measure or --check, because nothing else runs the model", param_hint="--input"
        )
    if checked and not all(map(_is_onnx, models)):
        raise typer.BadParameter("it is for .onnx models, whose meaning is the measure", param_hint="--check")
    _require_stages(stage)
    target = onnx or output or _default_output(model)
    _require_target(target, models, "--output" if onnx is None else "--onnx")
    graphwright.ops.load()

    request = _Request(flags, options, measured, checked, input, around, stage)
    shown = [_compilation(each, request) for each in models]
    if onnx is None:
        written = page_of(model.name, document_of(shown, _starts(shown, around))).encode()
    else:
        graphs = [picture for picture in shown[0].pictures if stage or picture.stage != TASKS]
        written = onnx_model(graphs[-1], model.name).SerializeToString(deterministic=True)
    with whole_file(target) as file:
        file.write(written)
    note(f"wrote {target} ({bytes_text(target.stat().st_size)})")


@dataclass(frozen=True)
class _Request:
    """The request for each model."""

    flags: ModelFlags
    options: Options
    measured: bool
    checked: bool
    input: list[str] | None
    around: str | None
    stage: list[str] | None


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


def _compilation(path: Path, request: _Request) -> Compilation:
    watched = Watched(request.around or "")
    with stages(Watch()) as observe:

        def both(name: str, product: object) -> None:
            observe(name, product)
            watched(name, product)

        package, model = _opened(path, request, both)
    sizes = _sizes(package, request.flags.sizes)
    times = _times(model, request) if request.measured and model is not None else {}
    pictures = watched.pictures(sizes, times) or pictures_of_package(package, sizes, times)
    if request.checked:
        errors = _errors(path, pictures, request)
        pictures = [picture.with_errors(errors) for picture in pictures]
    chosen = [each for each in pictures if not request.stage or each.stage in request.stage]
    if not chosen:
        held = ", ".join(repr(each.stage) for each in pictures)
        message = f"{path.name} has none of them: it has {held}"
        raise typer.BadParameter(message, param_hint="--stage")
    if request.around:
        chosen = [*_changed(watched, request.around), *chosen]
    return compilation_of(path.name, package, chosen)


def _errors(path: Path, pictures: Sequence[GraphPicture], request: _Request) -> dict[str, float]:
    """The errors of the results of nodes and regions of the last graph, by name."""
    last = next(picture for picture in reversed(pictures) if picture.stage != TASKS)
    regions = [group.node for group in last.groups if group.node is not None]
    alone = [node for node in last.nodes if last.groups[node.group].node is None]
    return value_errors(
        path,
        [name for node in (*regions, *alone) for name in node.results],
        request.options,
        shapes=request.flags.sizes,
        constants=parse_constants(request.flags.const),
        given=request.input,
    )


def _changed(watched: Watched, around: str) -> Sequence[GraphPicture]:
    if watched.changed is None:
        message = f"no pass {around!r} ran that changed the graph: --print-after-all of compile shows all"
        raise typer.BadParameter(message, param_hint="--pass")
    return watched.changed


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


def _opened(path: Path, request: _Request, observe: Observer) -> tuple[Package, Model | None]:
    """The package of a model; also the model if it was compiled here or will run."""
    flags, options = request.flags, request.options
    package = None if request.measured else flags.read_package(path, options)
    if package is not None:
        return package, None
    opened = flags.open_entry(path, options, observe=observe)
    return opened.alone(), opened


def _sizes(package: Package, given: Sizes) -> Mapping[str, Sequence[int]]:
    """The known shapes of inputs; predictions estimate the others."""
    try:
        return input_sizes(package.main.feeds, given)
    except FeedError:
        return {}


def _times(model: Model, request: _Request) -> dict[int, float]:
    """Nanoseconds of each task by number."""
    feeds = make_feeds(model.inputs, request.input, request.flags.sizes)
    return {row.task: row.median_ns for row in task_times(model, feeds, RUNS, threads=1)}

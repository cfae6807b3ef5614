"""``graphwright debug reduce``."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import onnx
import typer

from graphwright.config import Options
from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.op import Array
from graphwright.records import dataclass
from graphwright.support.message_text import counted
from graphwright.support.whole_file import whole_file
from graphwright.tools.arguments import require_folder
from graphwright.tools.arrays import write_npz
from graphwright.tools.console import note, progress, say
from graphwright.tools.debugging.ddmin import Budget
from graphwright.tools.debugging.reduction import Reducer
from graphwright.tools.debugging.subject import evaluated, random_feeds
from graphwright.tools.debugging.submodel import Candidate, Divisible, read_onnx
from graphwright.tools.flags import FlagGroup, with_options_of
from graphwright.tools.measuring.engines import first_line
from graphwright.tools.models import is_package
from graphwright.tools.run_flags import InputFlags

SECONDS: Final = 600.0
PLACE: Final = "{}"
FEEDS: Final = "{feeds}"


@dataclass(frozen=True)
class _TimeLimits(FlagGroup):
    """The flags that limit the time of a reduction."""

    budget: Annotated[float, typer.Option(help="Time limit of the whole reduction, in seconds.", min=0)] = (
        SECONDS
    )
    timeout: Annotated[
        float,
        typer.Option(
            help=(
                "Time limit of one run of the command, in seconds; exceeding it counts as another exit "
                "status."
            ),
            min=0,
        ),
    ] = SECONDS


@with_options_of("plugins")
def reduce(
    model: Annotated[Path, typer.Argument(help="The ONNX model.", metavar="MODEL", show_default=False)],
    when: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Run for each part of the model, without a shell: {} is its path, {feeds} that of an .npz "
            "with its inputs. The part is kept if the command exits as it does for the whole model.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=(
                "The file of the smallest model; default: MODEL.reduced.onnx. Its inputs are written "
                "next to it, as .npz."
            ),
            show_default=False,
        ),
    ] = None,
    *,
    limits: _TimeLimits,
    flags: InputFlags,
    options: Options,
) -> None:
    """Reduce an ONNX model to the smallest one for which a command still fails.

    Delta debugging removes nodes and outputs. A cut edge becomes an input with the value of a run in f64;
    a value that depends on no input becomes an initializer.

    [bold]Examples[/bold]

      graphwright debug reduce model.onnx --when "python check.py {}" -o s.onnx
      graphwright debug reduce model.onnx --when "graphwright check {} -i {feeds}"
    """
    target = output or model.with_name(f"{model.stem}.reduced.onnx")
    require_folder(target, "--output")
    command = _words(when)
    if is_package(model):
        hint = "give the original ONNX model: nodes of a package are fused"
        raise ModelError(
            Diagnostic("reduce", "this is a package; reduce takes ONNX models", str(model), hint)
        )
    proto = read_onnx(model)
    divisible = Divisible(proto, _values(proto, flags))
    with tempfile.TemporaryDirectory(prefix="graphwright-") as folder:
        check = _Check(command, Path(folder), limits.timeout, _is_valid(proto))
        code = _failing_code(check, divisible, model, limits.timeout)
        with progress("reducing the model"):
            reducer = Reducer(divisible, lambda part: check.exit_code(part) == code, Budget(limits.budget))
            found = reducer.reduced()
    assert found is not None  # the whole model has just failed
    _write(target, found)
    say(f"  {counted(len(found.nodes), 'node')} of {len(divisible)} remain after {reducer.tried} runs")
    note(f"wrote {target} and {_feeds_path(target)}")


def _words(when: str) -> list[str]:
    try:
        words = shlex.split(when)
    except ValueError as error:
        raise typer.BadParameter(f"{when!r} is not a command: {error}", param_hint="--when") from error
    if not any(PLACE in word for word in words):
        raise typer.BadParameter(
            "it must contain {}, which stands for the path of a part", param_hint="--when"
        )
    return words


class _Check:
    """Runs the command on parts, each in a file in ``folder``."""

    def __init__(self, words: Sequence[str], folder: Path, timeout: float, valid: bool) -> None:
        self._words, self._folder, self._timeout, self._valid = words, folder, timeout, valid

    def exit_code(self, part: Candidate) -> int | None:
        """The exit code of the command; None if it takes too long, or if the part is not a valid model."""
        if self._valid and not _is_valid(part.proto):
            return None
        path, feeds = self._folder / "part.onnx", self._folder / "feeds.npz"
        onnx.save(part.proto, str(path))
        write_npz(feeds, part.feeds)
        words = [w.replace(FEEDS, str(feeds)).replace(PLACE, str(path)) for w in self._words]
        try:
            done = subprocess.run(words, capture_output=True, timeout=self._timeout, check=False)
        except subprocess.TimeoutExpired:
            return None
        except OSError as error:
            message = f"{words[0]!r} cannot be run: {error.strerror}"
            raise typer.BadParameter(message, param_hint="--when") from error
        return done.returncode


def _failing_code(check: _Check, divisible: Divisible, model: Path, timeout: float) -> int:
    """The exit code of the command for the whole model. Raises ModelError if it does not fail in time."""
    code = check.exit_code(divisible.part(range(len(divisible))))
    if code:
        return code
    what = "the command succeeds" if code == 0 else f"the command takes more than {timeout:g} s"
    hint = "give a command that fails for the whole model"
    raise ModelError(Diagnostic("reduce", f"{what} on the whole model", str(model), hint))


def _is_valid(proto: onnx.ModelProto) -> bool:
    """Whether ONNX's own checker accepts a model."""
    try:
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError, TypeError):
        return False
    return True


def _values(proto: onnx.ModelProto, flags: InputFlags) -> Mapping[str, Array]:
    """The values of a run, by name; if the model cannot run, none, and a note."""
    try:
        return evaluated(proto, random_feeds(proto, flags.input, flags.sizes, flags.seed))
    except Exception as error:  # references can raise any exception for data that they reject
        note(
            "note: the model cannot be evaluated, so intermediate values cannot be inputs: "
            f"{first_line(error)}"
        )
    return {}


def _write(target: Path, found: Candidate) -> None:
    with whole_file(target) as file:
        file.write(found.proto.SerializeToString())
    write_npz(_feeds_path(target), found.feeds)


def _feeds_path(target: Path) -> Path:
    return target.with_suffix(".npz")

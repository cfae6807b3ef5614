"""``graphwright calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphwright.config import Options
from graphwright.cost.calibration import rates_of
from graphwright.cost.machine import MACHINES
from graphwright.errors import Diagnostic, OptionError
from graphwright.option_files.rate_files import RATES, Rates, cpu_model, parsed, rates_text
from graphwright.option_files.text import option_text
from graphwright.runtime.devices.this_cpu import usable_isas
from graphwright.support.whole_file import whole_file
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.rates import Core
from graphwright.targets.cpu.toolchain import find_toolchain
from graphwright.tools.command_classes import Command
from graphwright.tools.console import note, progress, say, table
from graphwright.tools.flags import with_options_of

app = typer.Typer(add_completion=False)


@app.command(cls=Command)
@with_options_of("cc")
def calibrate(
    show: Annotated[
        bool, typer.Option("--show", help="Show the measured rates and those of the built-in table.")
    ] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="Delete the measured rates, so the built-in table is used again.")
    ] = False,
    *,
    options: Options,
) -> None:
    """Measure the rates of this CPU for the cost model of this user's later compilations.

    It takes some seconds and needs a C compiler. The result of a compilation depends on the rates; without
    them it is the same on every machine.

    [bold]Examples[/bold]

      graphwright calibrate
      graphwright calibrate --show
      graphwright calibrate --reset
      graphwright compile model.onnx --calibration none
    """
    if show and reset:
        raise typer.BadParameter("use only one of --show and --reset", param_hint="--reset")
    path = options.calibration_file
    if reset:
        _remove(path)
        return
    if show:
        _show(path)
        return
    toolchain = find_toolchain(options)
    with progress("measuring this CPU"):
        rates = {isa: Core(ISAS[isa], toolchain).rates() for isa in usable_isas()}
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(rates_text(cpu_model(), rates).encode() + b"\n")
    _table(rates)
    note(f"wrote {path}")


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        say("There are no measured rates: the built-in table is used.")
    else:
        note(f"removed {path}")


def _show(path: Path) -> None:
    try:
        cpu, rates = parsed(option_text(path))
    except (FileNotFoundError, NotADirectoryError):
        say("There are no measured rates: the built-in table is used.")
        return
    except (OSError, ValueError) as error:
        hint = "measure again, or remove it with --reset"
        raise OptionError(Diagnostic("rates", str(error), str(path), hint)) from error
    used = "" if cpu == cpu_model() else f"; they are not used, as this CPU is {cpu_model()}"
    say(f"{path}: rates of {cpu}{used}")
    _table(rates)


def _table(rates: Rates) -> None:
    """Shows the measured rates next to the built-in ones."""
    rows = [
        [isa, name, str(rates[isa][name]), str(rates_of(MACHINES[isa])[name])]
        for isa in rates
        for name in RATES
    ]
    table(rows, ["isa", "rate", "measured", "table"], "")

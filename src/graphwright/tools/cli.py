"""The command line: ``graphwright COMMAND``, also ``python -m graphwright COMMAND``.

Exit status: 0 for success; 1 for a fault of the model, the data or the machine; 2 for invalid arguments.
"""

from __future__ import annotations

import importlib
from typing import Annotated, Any, NoReturn

import typer

from graphwright.support.escaping import terminal
from graphwright.support.message_text import did_you_mean
from graphwright.tools.arguments import Version
from graphwright.tools.command_classes import Group
from graphwright.tools.console import say
from graphwright.tools.exit_status import end_with

COMMANDS = (
    "compile",
    "run",
    "inspect",
    "explain",
    "view",
    "memory",
    "check",
    "debug",
    "bench",
    "profile",
    "plugins",
    "cache",
    "calibrate",
)
"""Each command is ``app`` in a module of its own, which is imported when the command is used."""


class Commands(Group):
    """The group of all commands. Its ``main`` turns errors into messages and exit codes."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands, in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Imports the module of a command and returns the command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"graphwright.tools.commands.{cmd_name}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As in click, but suggests a similar command if there is none of that name."""
        if not args[0].startswith("-") and args[0] not in COMMANDS:
            commands = f"{did_you_mean(args[:1], COMMANDS)}The commands are {', '.join(COMMANDS)}."
            ctx.fail(f"No command {terminal(args[0])!r}. {commands[0].upper()}{commands[1:]}")
        return super().resolve_command(ctx, args)

    def main(self, *arguments: Any, **settings: Any) -> NoReturn:
        """Run the command and end the process."""
        end_with(lambda: super(Commands, self).main(*arguments, **settings))


def show_stages(wanted: bool) -> None:
    """Shows the stages of a compilation and exits, if ``wanted``."""
    if wanted:
        from graphwright.tools.reports.pipeline_table import pipeline_text  # imports the compiler

        say(pipeline_text())
        raise typer.Exit()


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def main(
    version: Version = False,
    stages: Annotated[
        bool,
        typer.Option(
            "--stages", callback=show_stages, is_eager=True, help="Show the stages of a compilation and exit."
        ),
    ] = False,
) -> None:
    """Compile deep learning models to fast native packages; run, measure and explain them.

    [bold]A first tour[/bold]

      graphwright compile model.onnx -o model.om --shape x:1,3,224,224
      graphwright run model.om --input x=image.npy -o result.npz
      graphwright check model.onnx
      graphwright debug bisect model.onnx
      graphwright bench model.onnx --against onnxruntime
      graphwright profile model.om --trace trace.json
      graphwright inspect model.om
      graphwright explain model.om
      graphwright view model.onnx -o model.html
      graphwright memory model.om
    """

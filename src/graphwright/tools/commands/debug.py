"""``graphwright debug``; each of its commands has a file of its own."""

from __future__ import annotations

import typer

from graphwright.tools.command_classes import Command, Group
from graphwright.tools.commands.debug_bisect import bisect
from graphwright.tools.commands.debug_compare import compare
from graphwright.tools.commands.debug_nan import nan
from graphwright.tools.commands.debug_reduce import reduce

app = typer.Typer(cls=Group, add_completion=False, no_args_is_help=True)


@app.callback()
def debug() -> None:
    """Find the pass, kernel or node that makes the results of a model wrong.

    [bold]Examples[/bold]

      graphwright debug bisect model.onnx -o fault
      graphwright debug nan model.onnx -i inputs.npz
      graphwright debug compare model.om model.onnx --with onnxruntime
      graphwright debug reduce model.onnx --when "python check.py {}"
    """


for command in (bisect, nan, compare, reduce):
    app.command(cls=Command)(command)

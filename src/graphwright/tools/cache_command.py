"""``graphwright cache``."""

from __future__ import annotations

import typer

from graphwright.config import Options
from graphwright.runtime.target import for_this_cpu
from graphwright.targets.cpu.cache import KernelCache, key_of
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.toolchain import find_toolchain
from graphwright.tools.arguments import Constants, Outputs, Shapes, parse_shapes, with_options
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.console import bytes_text, say, table
from graphwright.tools.models import is_package, open_model

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def cache() -> None:
    """Look at the folder of compiled kernels, ask why it missed, empty it.

    \b
    [bold]Examples[/bold]

    \b
      graphwright cache stats
      graphwright cache explain model.onnx --shape x:1,3,224,224
      graphwright cache clear
    """


@app.command()
@with_options
def stats(*, options: Options) -> None:
    """Show where the kernels are, how many, and how much they may take.

    \b
    [bold]Example[/bold]

    \b
      graphwright cache stats --cache-dir /var/cache/kernels
    """
    kernels = KernelCache(options)
    found = kernels.stats()
    table(
        [
            ["folder", str(kernels.folder)],
            ["entries", str(found.entries)],
            ["size", bytes_text(found.bytes)],
            ["limit", bytes_text(options.cache_limit << 20)],
        ]
    )


@app.command()
@with_options
def explain(
    model: ModelPath,
    shape: Shapes = None,
    const: Constants = None,
    outputs: Outputs = None,
    *,
    options: Options,
) -> None:
    """Say whether the kernels of a model are there and, if not, what changed. It compiles the model.

    \b
    [bold]Example[/bold]

    \b
      graphwright cache explain model.onnx --shape x:1,3,224,224 --isa v3
    """
    if is_package(model):
        raise typer.BadParameter("a package holds its kernels and needs no cache: give the .onnx model")
    asked = 0

    def observe(stage: str, product: object) -> None:
        nonlocal asked
        if stage == "emit" and isinstance(product, dict):
            for name, text in product.items():
                if name.endswith(".c"):
                    asked += 1
                    say(f"  {name}: {_why(text, options)}")

    open_model(model, options, shapes=parse_shapes(shape), constants=const, outputs=outputs, observe=observe)
    if not asked:
        say("  it needs no kernels of its own at these sizes")


def _why(source: str, options: Options) -> str:
    options = for_this_cpu(options)
    isa = ISAS[options.isa]
    return KernelCache(options).explain_miss(key_of(source, isa, find_toolchain(options), options))


@app.command()
@with_options
def clear(*, options: Options) -> None:
    """Drop every kernel; models that are compiled later make theirs again.

    \b
    [bold]Example[/bold]

    \b
      graphwright cache clear
    """
    dropped = KernelCache(options).clear()
    say(f"  dropped {dropped} {'entry' if dropped == 1 else 'entries'}")

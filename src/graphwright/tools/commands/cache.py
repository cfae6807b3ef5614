"""``graphwright cache``."""

from __future__ import annotations

import typer

from graphwright.config import Options
from graphwright.program_cache import ProgramCache, age_text
from graphwright.runtime.devices.this_cpu import for_this_cpu
from graphwright.support.units import bytes_text
from graphwright.targets.cpu.cache import KernelCache, key_of
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.toolchain import find_toolchain
from graphwright.tools.arguments import Model as ModelPath
from graphwright.tools.command_classes import Command, Group
from graphwright.tools.console import say, table
from graphwright.tools.flags import with_options
from graphwright.tools.models import CompileFlags, is_package
from graphwright.tuning.store import forget, record_file, users_record

app = typer.Typer(cls=Group, add_completion=False, no_args_is_help=True)


@app.callback()
def cache() -> None:
    """Show or clear the caches of compiled kernels, programs and tuning results; explain cache misses.

    [bold]Examples[/bold]

      graphwright cache stats
      graphwright cache list
      graphwright cache explain model.onnx --shape x:1,3,224,224
      graphwright cache clear
    """


@app.command(cls=Command)
@with_options
def stats(*, options: Options) -> None:
    """Show the folders, number and size limits of cached kernels, programs and tuning results.

    [bold]Example[/bold]

      graphwright cache stats --cache-dir /var/cache/kernels
    """
    kernels, programs = KernelCache(options), ProgramCache(options)
    found, limit = kernels.stats(), bytes_text(options.cache_limit << 20)
    for what, folder, entries, size in (
        ("compiled kernels", kernels.folder, found.entries, found.bytes),
        ("programs compiled by torch.compile", programs.folder, len(programs.entries()), programs.bytes()),
    ):
        say(what)
        rows = [["folder", str(folder)], ["entries", str(entries)], ["size", bytes_text(size)]]
        table([*rows, ["limit", limit]])
    record = users_record(options)
    count = 0 if record is None else len(record.workloads)
    say("tuning results")
    table([["file", str(record_file(options))], ["workloads", str(count)]])


@app.command("list", cls=Command)
@with_options
def list_programs(*, options: Options) -> None:
    """List the cached programs compiled by torch.compile, the most recently used first.

    [bold]Example[/bold]

      graphwright cache list
    """
    rows = [
        [each.name[:12], each.key.graph[:8], each.key.isa, bytes_text(each.bytes), age_text(each.used)]
        for each in ProgramCache(options).entries()
    ]
    if rows:
        table(rows, ["program", "graph", "isa", "size", "used"])
    else:
        say("  there are none")


@app.command(cls=Command)
@with_options
def explain(model: ModelPath, flags: CompileFlags, *, options: Options) -> None:
    """Show whether the kernels of a model are cached and, if not, what changed. Compiles the model.

    [bold]Example[/bold]

      graphwright cache explain model.onnx --shape x:1,3,224,224 --isa v3
    """
    if is_package(model):
        raise typer.BadParameter("a package holds its kernels and needs no cache: give the .onnx model")
    if len(options.targets) > 1:
        raise typer.BadParameter("kernels are explained for one target at a time: give --isa, not --targets")
    kernels = 0

    def observe(stage: str, product: object) -> None:
        nonlocal kernels
        if stage == "emit" and isinstance(product, dict):
            for name, text in product.items():
                if name.endswith(".c"):
                    kernels += 1
                    say(f"  {name}: {_why(text, options)}")

    flags.open(model, options, observe=observe)
    if not kernels:
        say("  it needs no kernels of its own at these sizes")


def _why(source: str, options: Options) -> str:
    options = for_this_cpu(options)
    isa = ISAS[options.isa]
    return KernelCache(options).explain_miss(key_of(source, isa, find_toolchain(options), options))


@app.command(cls=Command)
@with_options
def clear(*, options: Options) -> None:
    """Delete all cached kernels, programs and tuning results; later compilations create them again.

    [bold]Example[/bold]

      graphwright cache clear
    """
    dropped = KernelCache(options).clear() + ProgramCache(options).clear() + forget(options)
    say(f"  dropped {dropped} {'entry' if dropped == 1 else 'entries'}")

"""The door from loading to the compiler, which is imported when something must be compiled, and not
before.
"""

from __future__ import annotations

from graphwright.config import Options
from graphwright.package.package import Package
from graphwright.runtime.instantiate import Recompile


def recompiler(package: Package, options: Options) -> Recompile:
    """Compiles ``package`` for shapes that it has no program for."""
    from graphwright.compiler.recompile import Recompiler

    return Recompiler(package, options)


def recompile(package: Package, options: Options) -> Package:
    """The graph and weights of ``package`` compiled for this machine. Raises PackageError, ToolchainError."""
    from graphwright.compiler import recompile

    return recompile.recompile(package, options)


def load_plugins(options: Options) -> None:
    """Load the plugins that ``options`` name. Raises PluginError."""
    from graphwright import plugins

    plugins.load(*options.plugins)


def use_plugins(options: Options) -> None:
    """Load the installed plugins as well. Raises PluginError."""
    from graphwright import plugins

    plugins.use(options)

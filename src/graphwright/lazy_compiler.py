"""The functions of the compiler that loading calls. The compiler is imported only when something must be
compiled.
"""

from __future__ import annotations

from graphwright.config import Options
from graphwright.package.package import Package
from graphwright.runtime.instantiate import Recompile


def recompiler(package: Package, options: Options) -> Recompile:
    """The function that compiles ``package`` for shapes that it has no program for."""
    from graphwright.compiler.recompile import Recompiler

    return Recompiler(package, options)


def recompile(package: Package, options: Options) -> Package:
    """Compiles the graph and weights of ``package`` for this machine. Raises PackageError and
    ToolchainError.
    """
    from graphwright.compiler import recompile

    return recompile.recompile(package, options)


def load_plugins(options: Options) -> None:
    """Loads the plugins that ``options`` name. Raises PluginError."""
    from graphwright import plugins

    plugins.load(*options.plugins)


def use_plugins(options: Options) -> None:
    """Loads the installed plugins as well. Raises PluginError."""
    from graphwright import plugins

    plugins.use(options)

"""What ``graphwright.load`` does. The compiler is imported only where kernels must be made."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path

from graphwright.config import Options
from graphwright.errors import Diagnostic, ToolchainError
from graphwright.package.package import Package
from graphwright.package.read import read_package
from graphwright.package.sign import user_key
from graphwright.runtime.devices import NATIVE
from graphwright.runtime.devices.target import best_target
from graphwright.runtime.model import Model


def load(
    path: str | os.PathLike[str],
    *,
    trust: bool = False,
    keys: Sequence[bytes] = (),
    mmap: bool = False,
    options: Options | None = None,
) -> Model:
    """Load an ``.om`` file.

    Its kernels run if this user's own build or one of ``keys`` signed it, or with ``trust``; otherwise, and
    on a CPU or device for which it holds none, they are made again from its graph and weights. ``mmap``
    leaves the weights in the file, which must not change while the model lives.
    Raises PackageError, and ToolchainError where kernels must be made and no compiler is there.
    """
    options = options or Options.from_environment()
    own = user_key(options.key_folder, create=False)
    package = read_package(Path(path), trust=trust, keys=[*keys, *([own] if own else [])], use_mmap=mmap)
    target, device = best_target(package, options), NATIVE.get(options.device)
    if target is None or device is None:
        return _rebuilt(package, options, own, Path(path))
    return Model(package, device(package, target), threads=options.threads)


def _rebuilt(package: Package, options: Options, key: bytes | None, path: Path) -> Model:
    try:
        model: Model = importlib.import_module("graphwright.api").rebuild(package, options, key)
    except ToolchainError as error:
        hint = (
            "it has no trusted kernels for this CPU: trust=True runs those it holds, "
            "pip install graphwright[toolchain] makes new ones"
        )
        raise ToolchainError(
            *error.diagnostics, Diagnostic("untrusted", "has to be compiled here", str(path), hint)
        ) from error
    return model

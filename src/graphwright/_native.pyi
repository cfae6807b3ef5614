"""The native runtime (``runtime/native``): thread pool, executor, memory planner and loader."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, final

from numpy.typing import DTypeLike, NDArray
from typing_extensions import Buffer

class NativeError(RuntimeError): ...

class ProgramError(NativeError):
    """The encoded program is malformed: ``args`` are (text,)."""

class FeedError(NativeError):
    """Arrays do not fit the inputs or outputs: ``args`` are (text, index or -1, axis or -1)."""

class CheckError(NativeError):
    """A check of the shape program failed: ``args`` are (instruction, a, b)."""

class PlanError(NativeError):
    """Sizes overflow, or an operand exceeds its buffer: ``args`` are (text,)."""

class KernelError(NativeError):
    """A kernel failed: ``args`` are (task, code), and for data out of range (..., value, minimum,
    maximum).
    """

class LoadError(NativeError):
    """A shared object cannot be loaded: ``args`` are (text,)."""

def isa() -> str:
    """``"v4"``, ``"v3"`` or ``"baseline"``: the best x86-64 level of this CPU and operating system."""

def has_bf16() -> bool:
    """Whether this CPU has AVX512-BF16 in addition to ``"v4"``."""

def has_fast_bf16() -> bool:
    """Whether AVX512-BF16 multiplies faster than f32 FMAs."""

def cpu_count() -> int:
    """The number of CPUs that this process may use, by affinity and cgroup quota."""

def threads() -> int:
    """The default number of threads of a run."""

def set_threads(threads: int) -> None:
    """Set the default number of threads of a run; 0, the initial value: one for each usable core."""

def workers() -> int:
    """The number of worker threads that the process has started."""

def plan_memory(sizes: list[int], conflicts: list[list[int]], often: bool = False) -> tuple[list[int], int]:
    """The offsets of buffers in an arena, and the size of the arena, in bytes. Buffers that conflict do not
    overlap; ``conflicts[i]`` lists buffers before ``i``. ``often`` shortens the search for better offsets.
    """

def condense_all(data: Sequence[Buffer], mapped: bool = False) -> list[bytes]:
    """Condense each of ``data`` to 1/256 of its size, as input of a hash, at memory bandwidth and without the
    GIL. Different contents collide with a probability of 2^-64, but not for an adversary. ``mapped``: all
    data is in mapped files, whose pages are released after they are read (other memory would lose its
    content).
    """

def dlpack_capsule(tensor: NDArray[Any], code: int) -> object: ...
def dlpack_bits(tensor: object) -> tuple[NDArray[Any], int]:
    """A view of an object with ``__dlpack__`` in CPU memory as unsigned integers of 8 or 16 bits, and the
    DLPack code of its element type. Raises TypeError for other objects.
    """

@final
class Library:
    """A loaded shared object. It is unloaded with its last reference."""

    def symbol(self, name: str) -> int:
        """The address of a symbol. Raises KeyError."""

    def text(self, name: str) -> str:
        """The C string at the symbol ``name``. Raises KeyError."""

def load_library(data: bytes) -> Library:
    """Load a shared object from memory. Raises LoadError."""

def open_library(path: str) -> Library:
    """Load a shared object from a file. Raises LoadError."""

class PlanInfo(TypedDict):
    registers: list[int]
    arena: int
    arena_held: int
    """Bytes that the arena takes from the system, in whole pages."""
    bytes: int
    """Size of the plan itself."""
    threads: int
    sizes: list[int]
    offsets: list[int]
    """Of the buffers in the arena; -1 for buffers outside it."""
    chunks: list[int]
    """Of each task, like the lists below."""
    grids: list[int]
    """Numbers of units; a chunk of a task is a range of units."""
    read: list[int]
    """Bytes that the task reads."""
    written: list[int]
    outputs: list[tuple[int, ...]]

def is_recording() -> bool:
    """Whether a recording is active."""

def can_count(counter: int) -> bool:
    """Whether counter number ``counter`` is available to this thread. Raises ValueError."""

def now() -> int:
    """The time in nanoseconds on the clock of events, that of ``time.monotonic_ns``."""

def record(kind: int, text: str, start: int, end: int, a: int = 0, b: int = 0) -> None:
    """Record an event of this thread, if a recording is active. Raises ValueError for kinds that are reserved
    for the runtime.
    """

@final
class Recording:
    """Records the events of the process until ``stop``. Simultaneous recordings share buffers."""

    plans: dict[int, tuple[Any, PlanInfo]]
    """By serial: the ``about`` of the program, and the plan."""
    texts: dict[str, int]
    """The numbers by which events from Python refer to texts."""
    lost: int
    """The number of events of threads that could not allocate a buffer."""

    def __init__(
        self, capacity: int = 1048576, processor: bool = False, counters: Sequence[int] = ()
    ) -> None:
        """Keep up to ``capacity`` events of each thread. ``processor`` adds the CPU times of tasks,
        ``counters`` the values of up to 4 counters. Raises ValueError, also if another recording uses other
        counters.
        """

    def threads(self) -> list[tuple[int, str, bytes, int]]:
        """The number and name of each thread with a buffer, its events so far (``gw_event``), and the number
        of lost events. Empty after ``stop``.
        """

    def stop(self) -> None: ...

HostOperand = tuple[memoryview, tuple[int, ...]]
HostFunction = Callable[[list[HostOperand | None], list[HostOperand]], object]
"""Takes (bytes, shape) of each input and output, and fills the outputs. The memory is valid only in
the call.
"""

@final
class Arenas:
    """Arenas shared by programs: if one program runs at a time, there is one arena, of the largest
    program.
    """

    bytes: int
    """Size of all arenas."""

    def __init__(self) -> None: ...

@final
class CrashRun:
    """A context in which a crash in a kernel of a run of this thread writes a folder."""

    def __init__(self, folder: str, model: str, advice: str, files: list[tuple[str, bytes, Buffer]]) -> None:
        """``folder``, an absolute path, contains the folders of all crashes; ``model`` is the path of the
        package relative to it. ``advice`` is the end of the report. ``files`` are names and contents: the
        bytes, then the content of the memory at the time of the crash.
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
    ) -> None:
        """Keeps ``weights``, ``libraries`` and ``arenas`` alive; without ``arenas``, the program has its own.
        ``extents``: the address of the extent function of each kernel, 0 for none. ``dtypes``: returns those
        of the outputs, called at the first run, which imports NumPy; None: unsigned integers of the size of
        the elements.

        Raises ProgramError for malformed words.
        """

    about: object
    """Passed to readers of events with the plans of this program; at first None."""

    def watch_crashes(self, sites: Sequence[str]) -> None:
        """From now on a crash in a kernel prints the lines of its task. No run may be in progress."""

    @property
    def states(self) -> list[int]:
        """The indices of inputs that the tasks update."""

    def plan(self, input_shapes: Sequence[Sequence[int]], threads: int = 1) -> PlanInfo: ...
    def run(
        self,
        inputs: Sequence[Buffer | NDArray[Any]],
        outputs: Sequence[NDArray[Any] | Buffer | None] | None = None,
        threads: int = 0,
        poison: bool = False,
    ) -> list[NDArray[Any]]:
        """Run once, without the GIL. Outputs that are None are new arrays. ``threads`` 0: see
        ``set_threads``.

        ``poison`` fills planned memory that no task may read with NaN bytes. Raises FeedError, CheckError,
        PlanError, KernelError, MemoryError, and the exceptions of host functions.
        """

    def stats(self) -> dict[str, int]:
        """``runs``, ``host_calls``, ``plan_hits``, ``plan_misses`` and ``plan_evictions`` so far; the kept
        ``plans``, ``contexts`` and ``arena_bytes``."""

    def trim(self) -> int:
        """Drop all plans and unused memory, which returns to the system. Returns the bytes of dropped
        arenas.
        """

@final
class FastPath:
    """The fast path of runs: takes arrays that need no conversion, and returns None for all others."""

    threads: int

    def __init__(
        self,
        program: Program,
        inputs: tuple[str, ...],
        dtypes: tuple[DTypeLike, ...],
        outputs: tuple[str, ...],
        threads: int = 0,
    ) -> None:
        """Takes the names and dtypes of the inputs and the names of the outputs. Raises TypeError,
        ValueError.
        """

    def __call__(self, *arrays: object) -> tuple[NDArray[Any], ...] | None:
        """Run on arrays in the order of the inputs. None if one needs conversion or the run fails."""

    def named(self, feeds: object, names: object, out: object = None, /) -> dict[str, NDArray[Any]] | None:
        """Run on a dict of arrays. Returns the outputs called ``names``, or all; writes those in the dict
        ``out`` to its arrays.
        """

    def listed(self, feeds: object, names: object, /) -> list[NDArray[Any]] | None:
        """Like :meth:`named`, as a list in the order of ``names``."""

@final
class TensorFastPath:
    """Like :class:`FastPath`, for tensors of a library with the C functions of DLPack, which read the inputs
    and make the outputs.
    """

    def __init__(
        self,
        program: Program,
        type: type,
        inputs: list[tuple[int, int, int, tuple[int, ...] | None]],
        outputs: list[tuple[int, int]],
        frozen: list[tuple[int, int]],
        arguments: tuple[object, ...],
        threads: int = 0,
        is_lazy: bool = False,
    ) -> None:
        """``type``: the type of the tensors. ``inputs``: for each one its position among the arguments of a
        call, the DLPack code and the bits of its elements, and its axes from the outermost in memory; None
        for an integer argument, passed as the first size of an empty input. ``outputs``: code and bits of
        each one. ``frozen``: (position, bytes of elements) of arguments that must be the objects in
        ``arguments``, with the same version and the same sample of their content. With ``is_lazy``, inputs
        that are negated or conjugated when they are read are not accepted; otherwise none may be.

        A complex tensor is an input or output with elements of the same number of bits, or with its real and
        imaginary parts along a last axis.

        Raises ValueError if they do not fit the program.
        """

def sample_memory(data: int, bytes: int) -> int:
    """A hash of a sample of ``bytes`` of memory at the address ``data``."""

@final
class TensorDispatch:
    """Runs the first of its fast paths that accepts the arguments; if none does, calls ``otherwise`` with a
    tuple of them. It can have attributes.
    """

    _boxed_call: bool

    def __init__(self, otherwise: Callable[[tuple[Any, ...]], list[Any]]) -> None: ...
    def set_paths(self, paths: list[TensorFastPath]) -> None:
        """Replace the fast paths; their order does not matter. Raises TypeError."""

    def watch(self, names: dict[str, Any], flag: str, frame: Callable[[tuple[Any, ...]], list[Any]]) -> None:
        """While ``names[flag]`` is True, pass calls to ``frame`` with a tuple of the arguments, which must
        call :meth:`run`.
        """

    def run(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Run as a call does, but never through the ``frame`` of :meth:`watch`."""

    def __call__(self, *arguments: Any) -> list[Any]:
        """The outputs for ``arguments``, or for a single list of arguments, which is emptied."""

class AxisSize:
    """Passes the size of an axis of an array to a program: an empty array whose first axis has that size."""

    def __init__(self, axis: int) -> None: ...
    def __call__(self, array: object, /) -> tuple[NDArray[Any], ...] | None:
        """The empty array; None if ``array`` has no such axis."""

@final
class SizeBinder:
    """Passes a size that a program computed to other programs, as :class:`AxisSize` does, and gives views of
    the first elements of buffers.
    """

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        """``shapes`` of the views; -1 stands for the size."""

    def __call__(self, size: NDArray[Any], /, *buffers: NDArray[Any]) -> tuple[NDArray[Any], ...] | None:
        """The empty array and the views; None if ``size``, an i64, is negative or exceeds a buffer."""

@final
class NativeLoop:
    """A loop whose body is programs, with sizes that are bound between them: passes carried values from one
    iteration to the next and accumulates the rows of scan outputs.
    """

    def __init__(
        self,
        steps: Sequence[tuple[Callable[..., tuple[NDArray[Any], ...] | None], Sequence[int], Sequence[int]]],
        results: Sequence[int],
        values: Sequence[object],
        carried: int,
        conditional: bool,
        limit: int,
        goes_on: bool,
    ) -> None:
        """``values`` of the body: the iteration number, ``carried`` carried values, and all others. Each of
        ``steps`` is a function, and the indices of the values that it reads and of those that it writes.
        ``results`` are the indices of the results of the body: a condition if it is ``conditional``, the
        carried values, and rows. The loop runs at most ``limit`` iterations, and none unless ``goes_on``.

        Raises ValueError.
        """

    def run(self) -> bool:
        """Run the remaining iterations. Returns False if a step cannot run in the next one: the caller then
        runs the body on :meth:`received` and passes its results to :meth:`take`. Raises the exceptions of the
        steps and of signal handlers.
        """

    def received(self) -> list[Any]:
        """The inputs of the next iteration: its number and the carried values."""

    def take(self, results: Sequence[object]) -> None:
        """Continue with the results of the body in an iteration. Raises ValueError if rows differ in
        shape.
        """

    def results(self) -> tuple[list[Any], list[Any] | None]:
        """The final carried values, and the rows of each scan output, or None if there was no iteration."""

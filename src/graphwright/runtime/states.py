"""States: arrays that a model keeps from run to run, and that its runs update in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphwright.errors import Diagnostic, FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array, np
from graphwright.runtime.conversion import read_array
from graphwright.runtime.executor import Executor, FastPath
from graphwright.support.fork_lock import ForkLock
from graphwright.support.spelling import did_you_mean, listed


class States(Mapping[str, Array]):
    """The arrays by name, read-only: what they hold changes with the next run.

    They are zeros at first, or copies of what the model has for them; one with open sizes has no value before
    it is set.
    """

    def __init__(self, specs: Iterable[TensorSpec], starts: Mapping[str, Array] | None = None) -> None:
        """``starts``: by name, what states are at first that are not zeros then."""
        self._specs, self._starts = {spec.name: spec for spec in specs}, starts or {}
        self._arrays: dict[str, Array] = {}
        self.lock = ForkLock()
        """Held while a run reads and updates them."""

    def __len__(self) -> int:
        return len(self._specs)

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __getitem__(self, name: str) -> Array:
        view = self.array(name).view()
        view.flags.writeable = False
        return view

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """By name, the shapes of all that have a value, or will get one of a known size."""
        known = {spec.name: spec.sizes for spec in self._specs.values() if spec.sizes is not None}
        return {**known, **{name: array.shape for name, array in self._arrays.items()}}

    def array(self, name: str) -> Array:
        """The memory that runs update. Raises KeyError, and FeedError where its size is not known."""
        arrays = self._arrays
        if name not in arrays:
            return arrays.setdefault(name, self._first(self._specs[name]))  # another thread may be first
        return arrays[name]

    def reset(self, values: Mapping[str, Any]) -> None:
        """Let the states hold copies of ``values``, all others what they are at first; nothing changes where
        FeedError is raised.
        """
        if not isinstance(values, Mapping):
            what = type(values).__name__
            raise FeedError(Diagnostic("state", f"states are a mapping from names to arrays, not {what}"))
        made = {name: self._checked(name, value) for name, value in values.items()}
        with self.lock:
            self._arrays = made

    def _first(self, spec: TensorSpec) -> Array:
        if spec.name in self._starts:
            return self._starts[spec.name].copy()
        if spec.sizes is None:
            hint = f"set it before the first run, as in model.reset({{{spec.name!r}: np.zeros(...)}})"
            raise FeedError(Diagnostic("state", f"state {spec} has open sizes and was not set", hint=hint))
        return np.zeros(spec.sizes, spec.dtype.numpy)

    def _checked(self, name: str, value: Any) -> Array:
        spec = self._specs.get(name)
        if spec is None:
            hint = f"{did_you_mean([name], self._specs)}the states are {listed(self._specs)}"
            raise FeedError(Diagnostic("state", f"there is no state {name!r}", hint=hint))
        array = np.array(read_array(value, spec.dtype, f"state {name!r}"), order="C")
        if not spec.accepts(array.shape):
            raise FeedError(
                Diagnostic("state", f"state {name!r} is {spec.type_text}, not of shape {array.shape}")
            )
        return array


class StatefulExecutor(Executor):
    """Runs ``executor``, which takes ``inputs``, on what is fed and on ``states``: one run at a time.

    A run that fails may have updated states.
    """

    def __init__(
        self, executor: Executor, inputs: Sequence[TensorSpec], kept: Sequence[TensorSpec], states: States
    ) -> None:
        """``kept`` are the inputs that it reads from ``states``, which may hold others' as well."""
        self._executor, self.states = executor, states
        self._names = [spec.name for spec in inputs]
        self.kept = frozenset(spec.name for spec in kept)

    def fast_path(self, threads: int) -> FastPath:
        return _StatefulFastPath(self, self._executor.fast_path(threads))

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        with self.states.lock:
            return self._executor.run(self.completed(arrays), outputs, threads)

    def trim(self) -> int:
        return self._executor.trim()

    def stats(self) -> dict[str, int]:
        return self._executor.stats()

    def completed(self, arrays: Sequence[Any]) -> list[Any]:
        """``arrays`` and the states, in the order of the inputs."""
        fed = iter(arrays)
        return [self.states.array(name) if name in self.kept else next(fed) for name in self._names]

    def takes(self, count: int) -> bool:
        """Whether ``count`` arrays are fed."""
        return count + len(self.kept) == len(self._names)


class _StatefulFastPath(FastPath):
    """That of an executor, which is handed the states."""

    def __init__(self, executor: StatefulExecutor, callee: FastPath) -> None:
        self._executor, self._callee = executor, callee

    @property
    def threads(self) -> int:
        return self._callee.threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._callee.threads = count

    def __call__(self, *arrays: object) -> tuple[Array, ...] | None:
        if not self._executor.takes(len(arrays)):
            return None
        with self._executor.states.lock:
            return self._callee(*self._executor.completed(arrays))

    def named(self, feeds: object, names: object, out: object = None, /) -> dict[str, Array] | None:
        """As the callee's; feeds are a dict that names no state."""
        with self._executor.states.lock:
            whole = self._whole(feeds)
            return None if whole is None else self._callee.named(whole, names, out)

    def listed(self, feeds: object, names: object, /) -> list[Array] | None:
        """As :meth:`named`."""
        with self._executor.states.lock:
            whole = self._whole(feeds)
            return None if whole is None else self._callee.listed(whole, names)

    def _whole(self, feeds: object) -> dict[str, object] | None:
        states, kept = self._executor.states, self._executor.kept
        if type(feeds) is not dict or not kept.isdisjoint(feeds):
            return None
        return feeds | {name: states.array(name) for name in kept}

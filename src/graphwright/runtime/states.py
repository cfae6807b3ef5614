"""States: arrays that a model keeps between runs, and that each run updates in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphwright.errors import Diagnostic, FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array, np
from graphwright.runtime.executor import Executor, FastPath
from graphwright.runtime.feeds.conversion import read_array
from graphwright.support.fork_lock import ForkLock
from graphwright.support.message_text import did_you_mean, listed


class States(Mapping[str, Array]):
    """The state arrays by name, as read-only views: the next run changes their elements.

    A state begins as zeros, or as a copy of the initial value that the model has for it. A state with
    dynamic dimensions and no initial value must be set before the first run.
    """

    def __init__(self, specs: Iterable[TensorSpec], starts: Mapping[str, Array]) -> None:
        """``starts`` are the initial values by name, for states that do not begin as zeros."""
        self._specs, self._starts = {spec.name: spec for spec in specs}, starts
        self._arrays: dict[str, Array] = {}
        self.lock = ForkLock()
        """Held while a run reads and updates the states."""

    def __len__(self) -> int:
        return len(self._specs)

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __getitem__(self, name: str) -> Array:
        view = self.array(name).view()
        view.flags.writeable = False
        return view

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """By name, the shapes of all states that have a value or a static shape."""
        known = {spec.name: spec.sizes for spec in self._specs.values() if spec.sizes is not None}
        return {**known, **{name: array.shape for name, array in self._arrays.items()}}

    def array(self, name: str) -> Array:
        """The array that runs update. Raises KeyError, and FeedError if its shape is unknown."""
        arrays = self._arrays
        if name not in arrays:
            return arrays.setdefault(name, self._initial(self._specs[name]))  # another thread may be first
        return arrays[name]

    def reset(self, values: Mapping[str, Any]) -> None:
        """Sets the states in ``values`` to copies of these, and all others to their initial values. If it
        raises FeedError, no state has changed.
        """
        if not isinstance(values, Mapping):
            what = type(values).__name__
            raise FeedError(Diagnostic("state", f"states must be a mapping from names to arrays, not {what}"))
        arrays = {name: self._checked(name, value) for name, value in values.items()}
        with self.lock:
            self._arrays = arrays

    def _initial(self, spec: TensorSpec) -> Array:
        if spec.name in self._starts:
            return self._starts[spec.name].copy()
        if spec.sizes is None:
            hint = f"set it before the first run, as in model.reset({{{spec.name!r}: np.zeros(...)}})"
            message = f"state {spec} has dynamic dimensions and was not set"
            raise FeedError(Diagnostic("state", message, hint=hint))
        return np.zeros(spec.sizes, spec.dtype.numpy)

    def _checked(self, name: str, value: Any) -> Array:
        spec = self._specs.get(name)
        if spec is None:
            held = f"the states are {listed(self._specs)}" if self._specs else "the model has no states"
            hint = did_you_mean([name], self._specs) + held
            raise FeedError(Diagnostic("state", f"there is no state {name!r}", hint=hint))
        array = np.array(read_array(value, spec.dtype, f"state {name!r}"), order="C")
        if not spec.accepts(array.shape):
            raise FeedError(
                Diagnostic("state", f"state {name!r} must be {spec.type_text}, but has shape {array.shape}")
            )
        return array


class StatefulExecutor(Executor):
    """Runs ``executor`` on the feeds and on ``states``, one run at a time. A failed run may have updated
    states.
    """

    def __init__(
        self, executor: Executor, inputs: Sequence[TensorSpec], kept: Sequence[TensorSpec], states: States
    ) -> None:
        """``inputs`` are all inputs of ``executor``. ``kept`` are those among them that are states; their
        arrays are in ``states``, which may contain states of other entries as well.
        """
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
        """The feeds ``arrays`` together with the states, in the order of the inputs."""
        fed = iter(arrays)
        return [self.states.array(name) if name in self.kept else next(fed) for name in self._names]

    def takes(self, count: int) -> bool:
        """Whether the executor takes ``count`` feeds."""
        return count + len(self.kept) == len(self._names)


class _StatefulFastPath(FastPath):
    """The fast path of an executor; each call adds the states to the feeds."""

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
        """As :meth:`FastPath.named`; ``feeds`` is a dict that contains no state."""
        with self._executor.states.lock:
            whole = self._with_states(feeds)
            return None if whole is None else self._callee.named(whole, names, out)

    def listed(self, feeds: object, names: object, /) -> list[Array] | None:
        """As :meth:`named`."""
        with self._executor.states.lock:
            whole = self._with_states(feeds)
            return None if whole is None else self._callee.listed(whole, names)

    def _with_states(self, feeds: object) -> dict[str, object] | None:
        states, kept = self._executor.states, self._executor.kept
        if type(feeds) is not dict or not kept.isdisjoint(feeds):
            return None
        return feeds | {name: states.array(name) for name in kept}

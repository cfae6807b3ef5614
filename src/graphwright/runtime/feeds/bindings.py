"""Binds feeds and outputs to a model: checks and converts arrays of inputs, and names results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, cast

from graphwright.errors import Collector, Diagnostic, FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array, np
from graphwright.ir.default_values import constant_hint
from graphwright.ir.dtypes import STRING, DType
from graphwright.runtime.feeds.conversion import read_array
from graphwright.support.message_text import counted, did_you_mean, listed


class Bindings:
    """The inputs and outputs of one model."""

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """``metadata`` is that of the model: errors look up in it which inputs became constants."""
        self.inputs, self.outputs, self._metadata = inputs, outputs, metadata or {}
        self.names = [spec.name for spec in outputs]
        self._feed_names = {spec.name: None for spec in inputs}

    def _are_feeds(self, given: Any) -> bool:
        """Whether the only argument of a call is a dict of all inputs, and not the map that the one input
        takes.
        """
        if not isinstance(given, Mapping):
            return False
        if len(self.inputs) != 1 or not _takes_a_map(self.inputs[0].dtype):
            return True
        name = self.inputs[0].name
        return name in given and (given[name] is None or isinstance(given[name], Mapping))

    @cached_property
    def _types(self) -> list[np.dtype[Any]]:
        return [spec.dtype.numpy for spec in self.inputs]

    def called(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Array]:
        """Arrays for the executor from the arguments of a call: positional arrays in the order of the inputs
        and the rest by name, or one mapping of all.
        """
        if not named:
            return self.positional(arrays)
        given = dict(zip(self._feed_names, arrays, strict=False))
        if twice := given.keys() & named.keys():
            raise self._error("feed-name", f"input {min(twice)!r} is given twice, by position and by name")
        if len(arrays) > len(self.inputs):
            return self.positional(arrays)
        return self.named({**given, **named})

    def positional(self, arrays: Sequence[Any]) -> list[Array]:
        """Arrays for the executor from arrays in the order of the inputs."""
        if len(arrays) == 1 and self._are_feeds(arrays[0]):
            return self.named(arrays[0])
        if len(arrays) != len(self.inputs):
            given, wanted = counted(len(arrays), "array"), counted(len(self.inputs), "input")
            raise self._error("feed-count", f"got {given} for {wanted}")
        return [self._checked(k, array) for k, array in enumerate(arrays)]

    def named(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Arrays for the executor, in the order of the inputs, from arrays by name."""
        if not isinstance(feeds, Mapping):
            message = f"feeds must be a mapping from names to arrays, not {_kind(feeds)}"
            raise self._error("feed-name", message)
        if feeds.keys() != self._feed_names.keys():
            raise self._wrong_names(feeds)
        return [self._checked(k, feeds[name]) for k, name in enumerate(self._feed_names)]

    def output_names(self, wanted: Sequence[str]) -> Sequence[str]:
        """``wanted``, one name or several, as a sequence. Raises FeedError if one is not the name of an
        output.
        """
        if not isinstance(wanted, Iterable):
            message = f"outputs must be a list of names, not {_kind(wanted)}"
            raise FeedError(Diagnostic("output-name", message))
        faults = Collector(FeedError)
        wanted = [wanted] if isinstance(wanted, str) else list(wanted)
        for name in wanted:
            if name not in self.names:
                hint = f"{did_you_mean([name], self.names)}the outputs are {listed(self.names)}"
                faults.add("output-name", f"there is no output {name!r}", hint=hint)
        faults.raise_if_any()
        return wanted

    def targets(self, out: Mapping[str, Array], arrays: Sequence[Array]) -> list[Array | None]:
        """The caller's arrays for outputs in the order of the outputs, None for new arrays. Raises FeedError
        if one overlaps another or an input.
        """
        if not isinstance(out, Mapping):
            message = f"out must be a mapping from names to arrays, not {_kind(out)}"
            raise FeedError(Diagnostic("out", message))
        self.output_names(list(out))
        given = {spec.name: self._target(spec, out[spec.name]) for spec in self.outputs if spec.name in out}
        targets = list(given.items())
        for k, (name, array) in enumerate(targets):
            others = chain(tensors_of(arrays), (other for _, other in targets[:k]))
            if any(np.may_share_memory(array, other) for other in others):
                message = f"out[{name!r}] overlaps an input or another output"
                raise FeedError(
                    Diagnostic("out", message, hint="use memory that overlaps no other array of the call")
                )
        return [given.get(name) for name in self.names]

    def results(self, arrays: Sequence[Array], out: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, with the caller's own arrays for those in ``out``."""
        return {**dict(zip(self.names, arrays, strict=True)), **out}

    def summary(self) -> str:
        """The inputs on one line."""
        return f"the inputs are {', '.join(map(str, self.inputs)) or 'none'}"

    def _wrong_names(self, feeds: Mapping[str, Array]) -> FeedError:
        missing = [name for name in self._feed_names if name not in feeds]
        faults = Collector(FeedError)
        for name in feeds:
            if name not in self._feed_names:
                constant = constant_hint([name], self._metadata)
                hint = f"{constant or did_you_mean([name], missing)}{self.summary()}"
                faults.add("feed-name", f"there is no input {name!r}", hint=hint)
        for spec in (spec for spec in self.inputs if spec.name in missing):
            empty = "pass None for no value; " if spec.dtype.kind == "optional" else ""
            faults.add("feed-name", f"input {spec.name!r} is missing", hint=f"{empty}{self.summary()}")
        return FeedError(*faults.diagnostics)

    def _checked(self, index: int, array: Array) -> Array:
        """The array in the form that executors need: of the right dtype, C-contiguous, in native byte
        order.
        """
        if self.inputs[index].dtype.element is not None:
            held: Any = self._container(index, self.inputs[index].dtype, array)  # a list, or None
            return cast("Array", held)
        if type(array) is not np.ndarray or array.dtype != self._types[index] or array.dtype.hasobject:
            return self._array(index, self.inputs[index].dtype, array)
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)

    def _container(self, index: int, dtype: DType, given: Any) -> Any:
        """A container in the form that executors need: a list of arrays, a dict, or the value of an optional,
        which may be None.
        """
        if dtype.key is not None:
            return self._mapped(index, dtype, given)
        if dtype.element is None:
            return self._array(index, dtype, given)
        if dtype.kind == "optional":
            return None if given is None else self._container(index, dtype.element, given)
        if not isinstance(given, list | tuple):
            name = self.inputs[index].name
            raise self._error("feed-dtype", f"input {name!r} takes a list, not {_kind(given)}")
        return [self._container(index, dtype.element, item) for item in given]

    def _mapped(self, index: int, dtype: DType, given: Any) -> dict[Any, Any]:
        """A map in the form that executors need: a dict of Python numbers and strings."""
        mapping = isinstance(given, Mapping)
        found = {_python(key): _python(value) for key, value in given.items()} if mapping else {}
        if mapping and all(_is_of(dtype.key, k) and _is_of(dtype.element, v) for k, v in found.items()):
            return found
        message = f"input {self.inputs[index].name!r} takes a dict of type {dtype}, not {given!r:.100}"
        raise self._error("feed-dtype", message)

    def _array(self, index: int, dtype: DType, given: Any) -> Array:
        array = read_array(given, dtype, f"input {self.inputs[index].name!r}", self.summary())
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)

    def _target(self, spec: TensorSpec, array: Any) -> Array:
        if not isinstance(array, np.ndarray):
            raise _unfit_target(spec, type(array).__name__)
        if array.dtype != spec.dtype.numpy:
            raise _unfit_target(spec, str(array.dtype))
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise _unfit_target(spec, "read-only" if array.flags.c_contiguous else "strided")
        return array.view(np.ndarray)

    def _error(self, code: str, message: str) -> FeedError:
        return FeedError(Diagnostic(code, message, hint=self.summary()))


def _unfit_target(spec: TensorSpec, what: str) -> FeedError:
    """The error for a value in ``out`` that cannot hold the output, because it is ``what``."""
    message = f"out[{spec.name!r}] must be a writable C-contiguous NumPy array of {spec.dtype}, not {what}"
    return FeedError(Diagnostic("out", message))


def _takes_a_map(dtype: DType) -> bool:
    """Whether an input of ``dtype`` takes a dict: a map, or an optional one."""
    return dtype.key is not None or (dtype.kind == "optional" and _takes_a_map(cast(DType, dtype.element)))


def _is_of(dtype: DType | None, value: object) -> bool:
    """Whether ``value`` is a valid key or value of a map with elements of ``dtype``."""
    if dtype is STRING or dtype is None:
        return isinstance(value, str)
    kinds = int if dtype.is_integer else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool)


def _python(value: Any) -> Any:
    """The Python number or string of a NumPy scalar or of an array without axes."""
    scalar = isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return value.item() if scalar else value


def _kind(given: object) -> str:
    return type(given).__name__


def tensors_of(values: Iterable[Any]) -> Iterator[Array]:
    """The arrays among ``values``, also those in sequences."""
    for value in values:
        if isinstance(value, list):
            yield from tensors_of(value)
        elif isinstance(value, np.ndarray):
            yield value

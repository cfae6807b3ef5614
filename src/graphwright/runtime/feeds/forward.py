"""Calls a model like the PyTorch module that it was compiled from: arguments by position or name and in
containers (pytrees), and the result in the containers that ``forward`` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphwright.errors import Collector, FeedError
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array, np
from graphwright.ir.pytree import Constant as ConstantLeaf
from graphwright.ir.pytree import Forward, Items, Reader, Tensor, Tree, built, described, forward_from, leaves
from graphwright.support.message_text import did_you_mean, listed


class ForwardCall:
    """Converts the arguments of a ``forward`` to feeds, and outputs to the value that it returns."""

    def __init__(self, forward: Forward, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._forward, self._inputs = forward, inputs
        self._numbers = {name: k for k, name in enumerate(outputs)}
        trees = [tree for _, tree in forward.parameters]
        self.is_flat = [Tensor(name) for name in inputs] == trees[: forward.positional] == trees
        """Whether the arguments are exactly the inputs, in order."""
        result = forward.result
        self._is_one = isinstance(result, Tensor)
        self._is_all = isinstance(result, Items) and result == Items(
            tuple(map(Tensor, outputs)), is_tuple=True
        )

    def feeds(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The feeds by input name. Raises FeedError, which lists all arguments that do not fit."""
        parameters = dict(self._forward.parameters)
        given, faults = self._by_name(arguments, named, parameters), Collector(FeedError)
        reader = Reader(self._inputs)
        for name, tree in parameters.items():
            if name in given:
                reader.read(tree, given[name], name)
            else:
                reader.leave_out(tree, name)
        for message in reader.faults:
            faults.add("argument", message, hint=f"forward takes {', '.join(map(_text, parameters.items()))}")
        faults.raise_if_any()
        sizes = {name: np.empty((size, 0), np.uint8) for name, size in reader.sizes.items()}
        return reader.feeds | sizes

    def result(self, outputs: Sequence[Array]) -> Any:
        """The return value of ``forward``."""
        if self._is_one:
            return outputs[0]
        if self._is_all:
            return tuple(outputs)
        return built(self._forward.result, lambda name: outputs[self._numbers[name]])

    def _by_name(
        self, arguments: Sequence[Any], named: Mapping[str, Any], parameters: Mapping[str, Tree]
    ) -> dict[str, Any]:
        faults = Collector(FeedError)
        names = list(parameters)[: self._forward.positional]
        if len(arguments) > len(names):
            hint = f"give the others by name: forward takes {listed(parameters)}"
            faults.add("argument", f"{len(arguments)} arguments by position, at most {len(names)}", hint=hint)
        by_position = dict(zip(names, arguments, strict=False))
        for name in named:
            if name not in parameters:
                hint = f"{did_you_mean([name], parameters)}forward takes {listed(parameters)}"
                faults.add("argument", f"there is no argument {name!r}", hint=hint)
            elif name in by_position:
                faults.add("argument", f"{name!r} is given twice, by position and by name")
        faults.raise_if_any()
        return {**by_position, **named}


def forward_call(
    metadata: Mapping[str, str], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> ForwardCall | None:
    """The conversion for a model with these inputs and outputs. None if the model was not compiled from a
    PyTorch module, or if its inputs or outputs are not those of the module.
    """
    forward = forward_from(metadata)
    if forward is None:
        return None
    names = [spec.name for spec in outputs]
    needed = [leaf.name for leaf in leaves(forward.result) if not isinstance(leaf, ConstantLeaf)]
    known = {leaf.name for _, tree in forward.parameters for leaf in _inputs(tree)}
    if set(needed) != set(names) or not known.issuperset(spec.name for spec in inputs):
        return None
    return ForwardCall(forward, [spec.name for spec in inputs], names)


def _inputs(tree: Tree) -> list[Any]:
    return [leaf for leaf in leaves(tree) if not isinstance(leaf, ConstantLeaf)]


def _text(parameter: tuple[str, Tree]) -> str:
    """The name of a parameter, with its structure if it is a container."""
    name, tree = parameter
    return name if isinstance(tree, Tensor) else f"{name}={described(tree):.200}"

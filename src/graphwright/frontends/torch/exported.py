"""Reads programs of ``torch.export`` into modules.

Parameters become constants, and buffers that the program changes become states. The metadata of the module
has the names and the structure of the arguments and of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, SymIntArgument

from graphwright.errors import Diagnostic, ModelError
from graphwright.frontends.torch.complex_nodes import ExportedNodeReader
from graphwright.frontends.torch.complex_numbers import COMPLEX_RESULT, Complex, complex_constant
from graphwright.frontends.torch.nodes import NO_OP, UnsupportedValue
from graphwright.frontends.torch.numbers import scalar
from graphwright.frontends.torch.random_numbers import is_random
from graphwright.frontends.torch.size_guards import assumed_sizes
from graphwright.frontends.torch.source_lines import user_line
from graphwright.frontends.torch.substitutes import substitute_inputs
from graphwright.frontends.torch.trees import tree_from
from graphwright.frontends.torch.types import Unsupported, array_from, dim_from, type_from
from graphwright.ir.build import new_main_graph
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Module, Value
from graphwright.ir.op import ConstRef
from graphwright.ir.pytree import METADATA, Constant, Forward, Number, Tensor, Tree, leaves
from graphwright.ir.symbols import Range
from graphwright.ir.types import U8, TensorType
from graphwright.ops.core.range import scalar_of

NOT_CHECKED = 2
"""The lower bound that ``torch.export`` assumes for sizes, but does not check: sizes can also be 0 and 1."""
_IN_PLACE = (
    "a model never writes to its arguments: let forward change a copy and return it, or keep the tensor as a "
    "buffer of the module, which becomes a state of the model"
)

_CHECK_OF_LAPACK = torch.ops.aten._linalg_check_errors.default
_NO_OP_HINT = "call it outside of the module, or use torch.compile, which leaves such operators to PyTorch"
_RANDOM = (
    "an exported model draws no random numbers: call module.eval() first if only training needs them, or let "
    "them be an argument of forward"
)


def parameter_names(program: ExportedProgram) -> list[str]:
    """The names of the parameters of ``forward``; empty if the program does not have them."""
    forward = program.module_call_graph[0].signature
    return [] if forward is None else list(forward.forward_arg_names or ())


def read_program(program: ExportedProgram, names: Sequence[str]) -> Module:
    """The module of ``program``, which is already decomposed. ``names``: the parameters of ``forward``.
    Raises a ModelError that lists all unsupported operators with their lines in the user's source.
    """
    return _ProgramReader(program, list(names)).read()


class _ProgramReader:
    def __init__(self, program: ExportedProgram, names: list[str]) -> None:
        """``names``: the names of the parameters of ``forward`` that are known."""
        self._program, self._names = program, names
        self._builder, _ = new_main_graph(Module())
        self._nodes = ExportedNodeReader(self._builder, program.graph_module)
        self._unsupported: dict[fx.Node, str] = {}
        self._states: dict[str, Value] = {}
        """The buffers that the program changes, by target."""
        self._initial_values: dict[Value, ConstRef] = {}
        self._changed = {
            spec.target
            for spec in program.graph_signature.output_specs
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
        }

    def read(self) -> Module:
        graph, signature = self._program.graph, self._program.graph_signature
        _drop_checks(graph)
        parameters = self._read_parameters()
        arguments = iter([leaf for tree in parameters.values() for leaf in leaves(tree)])
        given = zip(graph.find_nodes(op="placeholder"), signature.input_specs, strict=True)
        for node, spec in sorted(given, key=lambda each: each[1].kind is not InputKind.USER_INPUT):
            leaf = next(arguments) if spec.kind is InputKind.USER_INPUT else None
            self._guarded(node, lambda node=node, spec=spec, leaf=leaf: self._input(node, spec, leaf))
        self._note_ranges()
        self._demand_assumed_sizes()
        for node in graph.nodes:
            if node.op in ("get_attr", "call_function"):
                self._builder.sources = (node.name,)
                self._guarded(node, lambda node=node: self._read(node))
        self._demand_assumed_sizes()  # decompositions branch on sizes as well
        result = self._set_results(graph.output_node())
        self._refuse_unsupported()
        module = self._builder.module
        module.metadata[METADATA] = Forward(tuple(parameters.items()), self._positional(), result).to_json()
        return module

    def _read(self, node: fx.Node) -> Any:
        self._nodes.read(node)
        return self._nodes.results[node]

    def _guarded(self, node: fx.Node, make: Any) -> None:
        """Stores the result of ``make`` for ``node``; if it is not supported, substitute inputs, to
        continue reading.
        """
        try:
            self._nodes.results[node] = make()
        except Unsupported as error:
            self._unsupported[node] = str(error)
            self._nodes.results[node] = substitute_inputs(self._builder.graph, node)

    # ---- inputs

    def _positional(self) -> int:
        return len(self._program.call_spec.in_spec.child(0).children())

    def _read_parameters(self) -> dict[str, Tree]:
        """The parameters of ``forward``, by name."""
        positional, named = self._program.call_spec.in_spec.children()
        names = [*self._names[: len(positional.children())]]
        names += [f"argument_{k}" for k in range(len(names), len(positional.children()))]
        specs = zip([*names, *named.context], [*positional.children(), *named.children()], strict=True)
        kinds = iter([s for s in self._program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT])

        def leaf(path: str) -> Tree:
            return _leaf(next(kinds).arg, path)

        return {name: tree_from(spec, name, leaf) for name, spec in specs}

    def _input(self, node: fx.Node, spec: Any, leaf: Tree | None) -> Any:
        match spec.kind, leaf:
            case InputKind.USER_INPUT, Constant(value):
                return value
            case InputKind.USER_INPUT, Number(name):
                dim = dim_from(node.meta["val"])
                self._builder.graph.add_input(TensorType(U8, (dim, 0)), name)
                return dim
            case InputKind.USER_INPUT, Tensor(name):
                return self._builder.graph.add_input(type_from(node.meta["val"]), name)
            case InputKind.TOKEN, _:  # it orders side effects, whose operators are rejected
                return None
        if spec.target in self._changed:
            return self._state(spec.target)
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            return self._constant(spec.target) if node.users else None
        raise Unsupported(f"{spec.target or node.name} is not a tensor")

    def _constant(self, target: str) -> Value | Complex:
        tensor = self._stored_tensor(target)
        if tensor.is_complex():
            return complex_constant(tensor, self._builder)
        type_from(tensor)  # raises Unsupported for tensors that graphwright cannot represent
        return self._builder.const(array_from(tensor))

    def _stored_tensor(self, target: str) -> torch.Tensor:
        known = self._program.state_dict
        tensor: torch.Tensor = known[target] if target in known else self._program.constants[target]
        return tensor

    def _state(self, target: str) -> Value:
        tensor = self._stored_tensor(target)
        value = self._builder.graph.add_input(type_from(tensor), self._unused_name(target))
        self._states[target] = value
        if _is_not_zero(tensor):
            self._initial_values[value] = self._builder.module.constants.add(array_from(tensor.clone()))
        return value

    def _unused_name(self, name: str) -> str:
        used = {value.name for value in self._builder.graph.inputs}
        return next(each for each in _numbered(name) if each not in used)

    def _note_ranges(self) -> None:
        """Records the bounds of sizes that ``torch.export`` checks at run time."""
        for symbol, bounds in self._program.range_constraints.items():
            if symbol.is_Symbol:
                low, high = bounds.lower, bounds.upper
                self._builder.module.symbols.ranges[symbol.name] = Range(
                    int(low) if low > NOT_CHECKED else 0, int(high) if high < 2**31 else None
                )

    def _demand_assumed_sizes(self) -> None:
        names = symbols_in(each.type for each in self._builder.graph.inputs)
        for relation, left, right in assumed_sizes(self._program.graph, names):
            if left != right:
                self._builder.module.symbols.demand(
                    relation, left, right, "a branch in forward that depends on sizes"
                )

    # ---- results

    def _set_results(self, node: fx.Node) -> Tree:
        """Sets the outputs and the next values of states. Returns the structure of the result."""
        outputs: dict[str, Value] = {}
        nexts: dict[Value, Value] = {}
        user: list[tuple[Any, Any]] = []
        results: Any = node.args[0]
        for result, spec in zip(results, self._program.graph_signature.output_specs, strict=True):
            if spec.target in self._states:
                nexts[self._states[spec.target]] = self._nodes.results[result]
            elif spec.kind is OutputKind.USER_OUTPUT:
                user.append((result, spec.arg))
            elif spec.kind is OutputKind.USER_INPUT_MUTATION:
                self._unsupported[result] = f"forward writes to its argument {spec.target!r}: {_IN_PLACE}"
        left = iter(user)

        def leaf(path: str) -> Tree:
            return self._result(*next(left), path, outputs)

        tree = tree_from(self._program.call_spec.out_spec, "", leaf)
        self._builder.module.set_outputs(outputs, nexts, self._initial_values)
        return tree

    def _result(self, result: Any, argument: Any, path: str, outputs: dict[str, Value]) -> Tree:
        """Adds one leaf of the result to ``outputs``."""
        if isinstance(argument, ConstantArgument):
            return Constant(argument.value)
        name = next(each for each in _numbered(_output_name(path)) if each not in outputs)
        value = scalar(self._nodes.results[result])
        if isinstance(value, Value):
            outputs[name] = value
            return Number(name) if isinstance(argument, SymIntArgument) else Tensor(name)
        if isinstance(argument, SymIntArgument) and not isinstance(value, UnsupportedValue):
            outputs[name] = scalar_of(self._builder, value)
            return Number(name)
        reason = "it is neither a tensor nor an integer"
        if isinstance(value, Complex):
            reason = COMPLEX_RESULT
        elif isinstance(value, UnsupportedValue):
            reason = value.reason
        self._unsupported.setdefault(result, f"a result: {reason}")
        return Constant(None)

    def _refuse_unsupported(self) -> None:
        """Raises a ModelError with all unsupported operators, each one once."""
        if not self._unsupported:
            return
        lines: dict[tuple[str, str, str], dict[str, None]] = {}
        for node, reason in self._unsupported.items():
            what = str(_operator_of(node)) if node.op == "call_function" else node.name
            hint = _RANDOM if is_random(node) else _NO_OP_HINT if reason == NO_OP else ""
            lines.setdefault((what, reason, hint), {}).update(dict.fromkeys(user_line(node)))
        raise ModelError(
            *(
                Diagnostic("unsupported-op", f"{what}: {reason}", ", ".join(where), hint)
                for (what, reason, hint), where in lines.items()
            )
        )


def _operator_of(node: fx.Node) -> Any:
    """The operator that ``node`` calls; that of ``with_effects`` is its argument."""
    return node.args[1] if node.target is torch.ops.higher_order.with_effects else node.target


def _drop_checks(graph: fx.Graph) -> None:
    """Removes the checks of errors of LAPACK, with the tokens that order them."""
    checks = [node for node in graph.nodes if _operator_of(node) is _CHECK_OF_LAPACK]
    for node in checks:
        for result in list(node.users):
            result.replace_all_uses_with(node.args[0])
            graph.erase_node(result)
        graph.erase_node(node)


def _leaf(argument: Any, path: str) -> Tree:
    if isinstance(argument, ConstantArgument):
        return Constant(argument.value)
    return Number(path) if isinstance(argument, SymIntArgument) else Tensor(path)


def _output_name(path: str) -> str:
    """The name of a leaf of the result: ``output_0`` in a tuple, the key in a dict."""
    if not path:
        return "output"
    return f"output_{path}" if path[0].isdigit() else path


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 1
    while True:
        number += 1
        yield f"{name}_{number}"


def _is_not_zero(tensor: torch.Tensor) -> bool:
    """Whether a byte of ``tensor`` is not 0, as in -0.0."""
    return bool(array_from(tensor).reshape(-1).view("u1").any())

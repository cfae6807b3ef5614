"""Changes the interface of a module: binds inputs to constants, selects outputs, and turns inputs into
states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from graphwright.errors import Collector, ModelError
from graphwright.ir.build import Builder
from graphwright.ir.constants.user_inputs import constant_for
from graphwright.ir.graph import Module, Signature, Value
from graphwright.ir.symbols import Dim, Expr
from graphwright.passes.base import Record
from graphwright.passes.bind_sizes import bind_sizes
from graphwright.passes.dead_code import DeadCode
from graphwright.support.message_text import did_you_mean, listed


def bind_constants(module: Module, constants: Mapping[str, Any]) -> None:
    """Replaces inputs of the entry by ``constants``. Symbols in their shapes are bound
    everywhere.

    Raises ModelError with every unknown name and every constant that does not fit its input.
    """
    graph, faults = module.main, Collector(ModelError)
    inputs = {value.name: value for value in graph.inputs}
    unknown = [name for name in constants if name not in inputs]
    if unknown:
        names = ", ".join(map(repr, unknown))
        hint = f"{did_you_mean(unknown, inputs)}the inputs are {listed(inputs)}"
        faults.add("constants", f"not an input: {names}", hint=hint)
    builder = Builder(module, graph, next(iter(graph), None))
    sizes: dict[str, Dim] = {}
    bound: dict[Value, Value] = {}
    for name, given in constants.items():
        value = inputs.get(name)
        if value is None:
            continue
        try:
            array = constant_for(given, value.type)
            _note_sizes(value, array.shape, sizes)
        except ValueError as error:
            faults.add("constants", str(error), f"input {name}")
            continue
        bound[value] = builder.const(array)
    faults.raise_if_any()
    for value, constant in bound.items():
        graph.replace_all_uses(value, constant)
    _remove_inputs(module, list(bound))
    bind_sizes(module, sizes)


def _note_sizes(value: Value, shape: Sequence[int], sizes: dict[str, Dim]) -> None:
    """Collects the symbol values that the shape of a constant implies. Raises ValueError on a
    contradiction.
    """
    for dim, size in zip(value.type.shape or shape, shape, strict=True):
        if not isinstance(dim, Expr) or not str(dim).isidentifier():
            continue
        if sizes.setdefault(str(dim), size) != size:
            raise ValueError(f"size {dim} is {sizes[str(dim)]} in one constant but {size} in another")


def keep_outputs(module: Module, names: Sequence[str]) -> None:
    """Makes the values called ``names``, which may be intermediate values, the outputs of the entry. Inputs
    that are no longer needed are removed.

    Raises ModelError with the names that do not exist, and those given twice.
    """
    graph, faults = module.main, Collector(ModelError)
    given = dict(zip(graph.output_names, graph.outputs, strict=True))
    outputs = {
        name: value for k, (name, value) in enumerate(given.items()) if k not in module.state_updates()
    }
    inner = {value.name: value for node in graph for value in node.outputs if value.name}
    named = {value.name: value for value in graph.inputs} | inner | outputs
    for name, count in Counter(names).items():
        if name not in named:
            meant = did_you_mean([name], named)
            hint = f"{meant}the outputs are {listed(outputs)}; intermediate values can be named too"
            faults.add("output-name", f"there is no value {name!r}", hint=hint)
        elif count > 1:
            faults.add("output-name", f"output {name!r} is given {count} times")
    faults.raise_if_any()
    needed = [value for value in graph.inputs if value.is_used]
    kept = {name: named[name] for name in names}
    if updates := module.state_updates():
        starts = {graph.inputs[source]: ref for source, ref in module.initial_states().items()}
        nexts = {graph.inputs[source]: graph.outputs[k] for k, source in updates.items()}
        module.set_outputs(kept, nexts, starts)
    else:
        graph.set_outputs(list(kept.values()), list(kept))
    DeadCode().run(module, Record("dead_code"))
    _remove_inputs(module, [value for value in needed if not value.is_used])


def keep_states(module: Module, states: Mapping[str, str]) -> None:
    """Makes each input in ``states`` a state; the output that it maps to is its next value, and no longer an
    output.

    Raises ModelError with names that do not exist, outputs that are the next value of two inputs, and types
    that differ.
    """
    graph, faults = module.main, Collector(ModelError)
    inputs = {value.name: value for value in graph.inputs}
    outputs = dict(zip(graph.output_names, graph.outputs, strict=True))
    if module.state_updates():
        faults.add("states", "the module already has states", hint="declare all states where it is built")
    for known, names, what in ((inputs, [*states], "input"), (outputs, [*states.values()], "output")):
        for name, count in Counter(names).items():
            if name not in known:
                hint = f"{did_you_mean([name], known)}the {what}s are {listed(known)}"
                faults.add("states", f"there is no {what} {name!r}", hint=hint)
            elif count > 1:
                faults.add("states", f"{what} {name!r} is used for {count} states")
    faults.raise_if_any()
    for name, following in states.items():
        kept, next_type = inputs[name].type, outputs[following].type
        if kept != next_type:
            message = f"state {name!r} is {kept}, but its next value {following!r} is {next_type}"
            faults.add("states", message, hint="if they are equal at run time, give all sizes with shapes")
    faults.raise_if_any()
    data = {name: value for name, value in outputs.items() if name not in states.values()}
    module.set_outputs(data, {inputs[name]: outputs[following] for name, following in states.items()})


def _remove_inputs(module: Module, values: Sequence[Value]) -> None:
    """Removes unused inputs from the entry and its signature."""
    graph, signature = module.main, module.signatures.get("main")
    gone = {value.index for value in values}
    if signature is not None and gone:
        kept = [index for index in range(len(graph.inputs)) if index not in gone]
        aliases = tuple((o, kept.index(i)) for o, i in signature.aliases if i not in gone)
        starts = tuple((kept.index(i), ref) for i, ref in signature.initial_values if i not in gone)
        module.signatures["main"] = Signature(tuple(signature.roles[k] for k in kept), aliases, starts)
    for index in sorted(gone, reverse=True):
        graph.remove_input(index)

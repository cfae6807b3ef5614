"""What graphs that change their arguments become."""

from __future__ import annotations

import torch
from torch import fx

import graphwright as gw
from graphwright.frontends.torch.graph import COPY_BACK, read_graph
from graphwright.low_ir.tasks import TaskKind
from graphwright.runtime.devices.cpu import Cpu
from tests.frontends.torch.support import captured


def changing(graph: fx.GraphModule) -> fx.GraphModule:
    """``graph`` changed so that its first result is written to its first argument, in the form that
    AOTAutograd gives.
    """
    output = graph.graph.output_node()
    first, *rest = output.args[0]  # type: ignore[misc,union-attr]  # a list of nodes
    argument = next(iter(graph.graph.find_nodes(op="placeholder")))
    with graph.graph.inserting_before(output):
        graph.graph.call_function(COPY_BACK, (argument, first))
    output.args = (rest,)
    graph.recompile()
    return graph


def test_rows_are_written_into_a_changed_argument() -> None:
    """Only the rows are written: the cache is not copied."""

    def put(cache: torch.Tensor, at: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        written = cache.index_copy(1, at, rows)
        return written, written.sum(1)

    example = torch.zeros(2, 64, 5), torch.tensor([3]), torch.ones(2, 1, 5)
    graph = changing(captured(put, *example))
    made = read_graph(graph.graph, graph)
    assert made.interface.changed == [0]
    model = gw.compile(made.module)
    assert isinstance(model.executor, Cpu)
    assert not [task for task in model.executor.task_graph.tasks if task.kind is TaskKind.COPY]
    (total,) = model(example[1].numpy(), example[2].numpy())
    assert total.tolist() == [[1] * 5] * 2
    (state,) = model.states.values()
    assert state[:, 3].tolist() == [[1] * 5] * 2
    assert state.sum() == 10


def test_checks_of_types_are_left_out() -> None:
    class Halved(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(torch.float16) * 2

    program = torch.export.export(Halved(), (torch.ones(3),))
    assert "_assert_tensor_metadata" in str(program.graph)
    assert gw.compile(program)(torch.ones(3)).tolist() == [2, 2, 2]

"""The PyTorch backend: ``torch.compile(model, backend="graphwright")``."""

from graphwright.torch.dynamo import backend
from graphwright.torch.eager_graph import OperatorResult
from graphwright.torch.fuse import fuse
from graphwright.torch.reports import Report, report

__all__ = ["OperatorResult", "Report", "backend", "fuse", "report"]

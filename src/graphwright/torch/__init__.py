"""PyTorch's graphs on graphwright: ``torch.compile(model, backend="graphwright")``."""

from graphwright.torch.dynamo import backend
from graphwright.torch.reports import report

__all__ = ["backend", "report"]

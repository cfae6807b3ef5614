"""The files of the installed package, if there is one; see :mod:`graphwright.onnxruntime.installed`."""

from graphwright.onnxruntime.installed import load

load(__name__, globals())

"""Which kernels can do which ops: one file per family, each function registered for the ops it serves."""

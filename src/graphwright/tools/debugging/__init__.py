"""Finds what is at fault where a compiled model gives wrong results: the pass, the kernel, the node."""

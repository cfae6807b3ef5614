"""The library's kernels alone, compared with the limits of a core."""

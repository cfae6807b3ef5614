"""The registry of kernel candidates, what all families share, and candidates that generate kernels."""

"""The registry of kernel candidates, the choice between them, and what all families of kernels share."""

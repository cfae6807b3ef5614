"""What candidates of all families share, the registry, and candidates whose kernels are generated."""

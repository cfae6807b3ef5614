"""What the families of kernels share: arguments, extents, register tiles and headers of C."""

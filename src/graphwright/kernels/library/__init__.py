"""Shape-generic kernels that serve without a compiler: Python that writes C, built with the wheel."""

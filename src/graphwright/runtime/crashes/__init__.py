"""Reports crashes in kernels: the texts, and the option ``crash_dir``, which makes them reproducible."""

"""Kernels: C from loop IR, the prebuilt library, selection, the toolchain and its cache."""

"""The x86-64 target: its ISAs, the C emitter for the loop IR, the C compiler, and the cache of compiled
kernels.
"""

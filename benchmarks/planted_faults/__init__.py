"""Faults that are put into the compiler on purpose: ``graphwright debug bisect`` has to find each of them.

``python -m benchmarks.planted_faults`` compiles a small model with each fault and prints what was named, and
the seconds that it took.
"""

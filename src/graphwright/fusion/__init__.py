"""Fusion: which ops can share a kernel (loop analysis), which should (benefit), and why."""

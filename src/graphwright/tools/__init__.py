"""The commands ``graphwright`` and ``graph-autofusion``."""

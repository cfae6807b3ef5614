"""Code that the kernel families share: arguments, memory extents, register tiles and C headers."""

"""Tensors of a module: the constant pool, digests, and arrays mapped from files or computed later."""

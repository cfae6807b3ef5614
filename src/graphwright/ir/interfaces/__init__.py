"""Optional interfaces of ops: base classes that tell passes, layouts and kernels what an op allows."""

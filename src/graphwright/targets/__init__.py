"""What kernels can be generated for, a folder for each target."""

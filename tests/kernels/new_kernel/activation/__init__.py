"""A family of one small kernel: what CONTRIBUTING.md says of adding a kernel, done."""

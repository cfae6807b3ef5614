"""What a kernel costs on a machine: one table of rates, and one prediction from it."""

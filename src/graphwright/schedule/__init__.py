"""Schedule: the order of steps, their streams, and which must wait for which."""

"""What graphs built by hand need: ops by name, branches and loops, faults at the line of the call."""

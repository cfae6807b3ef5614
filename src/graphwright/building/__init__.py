"""Support for GraphBuilder: ops by name, branches and loops, and errors with the line of the call."""

"""``GraphBuilder``: models that are built op by op in Python, with errors that name the line of the call."""

"""Memory: whose storage each value uses, how long buffers live, where they lie, and an independent check."""

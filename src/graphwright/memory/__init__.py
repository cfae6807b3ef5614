"""Memory: whose storage each value uses, how long buffers live, where they lie in the arena, and an independent check."""

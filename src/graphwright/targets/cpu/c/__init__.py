"""The parts of the C emitter: types and helper functions, index arithmetic, statements, the main function."""

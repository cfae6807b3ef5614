"""Selection by value: TopK, NonZero, and non-maximum suppression."""

"""Elements that move: copies, gathers, pads, and channels to and from blocks."""

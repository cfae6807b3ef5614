"""From a module of graphs to a package."""

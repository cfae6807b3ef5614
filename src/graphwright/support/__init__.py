"""What every part may use, and what knows nothing of graphs: files, processes, words of messages."""

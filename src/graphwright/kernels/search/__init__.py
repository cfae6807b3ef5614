"""What is chosen by its value: the largest, what is not 0, boxes that no better one hides."""

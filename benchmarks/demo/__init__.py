"""Reading the text in a picture with PP-OCRv4: a detector of lines and a recognizer of characters.

Pictures are RGB ``uint8[H, W, 3]`` arrays. Both networks take BGR, as PaddleOCR feeds them.
"""

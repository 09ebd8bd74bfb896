"""One published or default algorithm a file or folder, named as people call it."""

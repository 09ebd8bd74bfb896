"""A safe file per model, written and read without running code from the file."""

"""One safe file a model: written and read without running code from it."""

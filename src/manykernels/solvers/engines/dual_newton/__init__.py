"""Newton's method on a smooth dual of which each kernel is one term."""

"""What is minimized: losses, regularizers, weight sets, the problem and its certificate."""

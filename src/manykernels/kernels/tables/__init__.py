"""What tables hold: kinds of columns, the numbers they become, views of samples, and what cannot be used and why."""

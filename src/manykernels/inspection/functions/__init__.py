"""What the learned functions look like."""

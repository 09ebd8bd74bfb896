"""What a fit found, as text."""

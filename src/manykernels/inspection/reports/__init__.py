"""The results of a fit as text."""

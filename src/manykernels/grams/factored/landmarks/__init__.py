"""Projections on landmarks: which rows they are, the features they make, and the leading directions of these."""

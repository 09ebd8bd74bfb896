"""How far a selection can be believed: resampling, importance on held-out rows, fits without a view."""

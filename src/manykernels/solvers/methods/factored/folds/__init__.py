"""Cross-validation of the squared loss on factors, in all training folds at once."""

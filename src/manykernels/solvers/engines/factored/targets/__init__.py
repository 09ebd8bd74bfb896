"""Several targets with one set of kernel weights: one problem on a copy of the samples for every target."""

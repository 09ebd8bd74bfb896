"""Kernel weights and a learner in turns: LPMKL, group lasso MKL, the elastic-net ball of Citi."""

"""Families of kernels with continuous parameters, and the search of their best member."""

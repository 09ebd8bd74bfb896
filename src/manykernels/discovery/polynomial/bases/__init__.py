"""Base kernels whose products make a polynomial family, and how their powers are normalized."""

"""The problem as one cone program, solved by Clarabel."""

"""Proximal forward-backward splitting (PFBS)."""

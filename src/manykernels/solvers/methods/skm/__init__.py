"""The support kernel machine by sequential minimal optimization (SKM)."""

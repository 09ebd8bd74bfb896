"""Displays of fitted models: compute once with ``from_...``, look at ``frame()``, draw with ``plot``.

All follow scikit-learn: a class method computes, ``__init__`` only keeps data, ``plot(ax=None)`` draws into given or
new axes, sets ``ax_`` and ``figure_`` and returns the display. Only ``plot`` needs matplotlib (the extra ``plot``).
"""

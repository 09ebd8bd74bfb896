"""What the displays share: matplotlib when it is needed, axes, colors, and short labels."""

from __future__ import annotations

import re
from typing import Any

BLUE, ORANGE, GRAY = "#1f5f9e", "#d9652b", "#8a8f98"
ONE_PARAMETER = re.compile(r"(\w+)\((\w+)=([^(),=]+)\)")


def require_matplotlib(what: str) -> None:
    """Raise ``ImportError`` with the command to run unless matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401 - only to see whether it is there
    except ImportError as error:
        raise ImportError(
            f"{what} needs matplotlib. Install it with: python -m pip install 'manykernels[plot]'."
        ) from error


def axes_of(ax: Any, what: str, size: tuple[float, float]) -> Any:
    """Return ``ax``, or the axes of a new figure of ``size`` inches."""
    require_matplotlib(what)
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def short_label(label: str) -> str:
    """Return the name of a kernel with single parameters by value only: ``gaussian(width=0.5)`` is ``gaussian 0.5``."""
    return ONE_PARAMETER.sub(r"\1 \3", label).replace("()", "")


def clean(ax: Any, *, grid: str | None = None) -> None:
    """Remove the upper and right spine, and put a light grid behind the data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    if grid is not None:
        ax.grid(axis=grid, color="#e3e6ea", linewidth=0.8)

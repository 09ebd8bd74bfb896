"""Run the command as ``python -m manykernels.cli``."""

from __future__ import annotations

from manykernels.cli import main

if __name__ == "__main__":
    main()

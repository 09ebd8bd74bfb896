"""Run the command as ``python -m manykernels.cli``."""

from manykernels.cli import main

if __name__ == "__main__":
    main()

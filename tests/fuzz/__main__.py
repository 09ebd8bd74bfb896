"""The command ``python -m tests.fuzz``; its work is in `run`, which worker processes can import."""

import sys

from tests.fuzz.run import main

if __name__ == "__main__":
    sys.exit(main())

"""Write docs/bad_inputs.md from the tests that try them: python docs/_generate_bad_inputs.py."""

from __future__ import annotations

import runpy
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests" / "estimators" / "test_bad_inputs.py"

if __name__ == "__main__":
    tests = runpy.run_path(str(TESTS))
    tests["PAGE"].write_text(tests["page"](), encoding="utf-8")

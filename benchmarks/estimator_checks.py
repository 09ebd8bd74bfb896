"""scikit-learn's checks of estimators, asked of every public estimator: how many pass, which do not, and why.

``python benchmarks/estimator_checks.py [--smoke]``

Survival models get the numbers that the checks know as times. Exits with 1 if a check fails that is not expected to.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from typing import Any

import _common as common

sys.path.insert(0, str(common.HERE.parent))

from sklearn.utils.estimator_checks import check_estimator
from tests.support.estimator_checks import EVERY, expected_failures

SMOKE = ("Survival", "KernelAligner")


def row(estimator: Any) -> tuple[dict[str, Any], list[str]]:
    """Return counts of one estimator, and what was said of failures that are not expected."""
    started = time.process_time()
    expected = expected_failures(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks ask for models that nobody would
        results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    counts = Counter(result["status"] for result in results)
    failed = [f"{one['check_name']}: {one['exception']}" for one in results if one["status"] == "failed"]
    known = [one["check_name"] for one in results if one["status"] == "xfail"]
    told = {
        "estimator": " ".join(str(estimator).split()),
        "passed": counts["passed"],
        "failed": len(failed),
        "expected failures": ", ".join(known),
        "CPU seconds": time.process_time() - started,
    }
    return told, failed


def main() -> None:
    """Print a line an estimator, and then why some checks are expected to fail."""
    options = common.parser(__doc__ or "").parse_args()
    asked = [one for one in EVERY if not options.smoke or type(one).__name__ in SMOKE]
    wrong: list[str] = []
    print(" passed  failed  seconds  estimator; expected failures")
    for estimator in asked:
        told, failed = row(estimator)
        wrong += [f"{told['estimator']}: {text}" for text in failed]
        more = f"; {told['expected failures']}" if told["expected failures"] else ""
        print(
            f"{told['passed']:7d} {told['failed']:7d} {told['CPU seconds']:8.1f}  {told['estimator']}{more}", flush=True
        )
    for name, reason in {name: text for one in asked for name, text in expected_failures(one).items()}.items():
        print(f"{name}: {reason}")
    if wrong:
        print("\n".join(wrong))
        sys.exit(1)


if __name__ == "__main__":
    main()

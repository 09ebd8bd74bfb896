"""Run one of several equal parts of the tests: ``pytest --part=1/2`` and ``--part=2/2`` together run each case once.

The part of a case follows from its name, so a case that is added or removed moves no other. Cases of a file whose
fixture runs a program, as those of experiments do, stay together.
"""

from __future__ import annotations

from zlib import crc32

import pytest

TOGETHER = ("tests/experiments/",)


class Part:
    """A plugin that deselects the cases of all parts but one."""

    def __init__(self, text: str) -> None:
        number, _, count = text.partition("/")
        if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
            raise pytest.UsageError(f"--part must be K/N with 1 <= K <= N, such as 1/2, got {text!r}.")
        self.number, self.count = int(number), int(count)

    def has(self, name: str) -> bool:
        """Whether a case belongs to this part."""
        key = name.partition("::")[0] if name.startswith(TOGETHER) else name
        return crc32(key.encode()) % self.count == self.number - 1

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave the cases of this part."""
        others = [item for item in items if not self.has(item.nodeid)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if self.has(item.nodeid)]

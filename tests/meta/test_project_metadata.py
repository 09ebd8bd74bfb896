"""Facts that are written down in several places must agree."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import metadata, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import manykernels

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def first_match(name: str, pattern: str) -> str:
    """Return the first group of ``pattern`` in a file of the root folder."""
    found = re.search(pattern, (ROOT / name).read_text(), flags=re.MULTILINE)
    assert found is not None, f"{name} has no line like {pattern}"
    return found.group(1)


def test_one_version_everywhere() -> None:
    expected = PROJECT["project"]["version"]
    assert version("manykernels") == expected
    assert manykernels.__version__ == expected
    assert first_match("CITATION.cff", r"^version: \"?([^\"\s]+)\"?$") == expected
    assert first_match("CHANGELOG.md", r"^## (\S+)") == expected


def test_one_license_everywhere() -> None:
    assert PROJECT["project"]["license"] == "BSD-3-Clause" == metadata("manykernels")["License-Expression"]
    assert first_match("CITATION.cff", r"^license: (\S+)$") == "BSD-3-Clause"
    assert (ROOT / "LICENSE").read_text().startswith("BSD 3-Clause License")


def test_type_checker_sees_the_package() -> None:
    settings = PROJECT["tool"]["mypy"]
    assert "src/manykernels" in settings["files"]
    assert settings["disallow_untyped_defs"] is True
    assert "exclude" not in settings
    assert (ROOT / "src" / "manykernels" / "py.typed").exists()


def test_pytest_is_strict_and_runs_the_doctests() -> None:
    settings = PROJECT["tool"]["pytest"]["ini_options"]
    assert {"--strict-markers", "--strict-config", "--doctest-modules"} <= set(settings["addopts"])
    assert settings["xfail_strict"] is True
    assert settings["filterwarnings"][0] == "error"
    assert settings["testpaths"] == ["tests", "src"]


def test_the_oldest_dependencies_are_those_of_the_project() -> None:
    done = subprocess.run([sys.executable, ROOT / ".ci" / "oldest"], capture_output=True, text=True, check=True)
    pinned = dict(line.split("==") for line in done.stdout.split())
    for requirement in PROJECT["project"]["dependencies"]:
        name, bound = requirement.split(">=")
        assert pinned[name] == bound


def test_the_conda_recipe_is_that_of_the_project() -> None:
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    assert f'version: "{PROJECT["project"]["version"]}"' in recipe
    needed = recipe.partition("  run:\n")[2].partition("\ntests:")[0]
    listed = {line.strip("- ").replace(" ", "") for line in needed.splitlines() if line.strip()}
    asked = PROJECT["project"]["requires-python"]
    command = PROJECT["project"]["optional-dependencies"]["cli"]  # conda has no extras
    assert listed == {f"python{asked}", *PROJECT["project"]["dependencies"], *command}


def test_a_release_without_junk_passes_and_junk_is_named(tmp_path: Path) -> None:
    spec = spec_from_file_location("distribution", ROOT / "lint" / "distribution.py")
    assert spec is not None
    assert spec.loader is not None
    distribution = module_from_spec(spec)
    spec.loader.exec_module(distribution)
    assert list(distribution.complaints(tmp_path)) == [
        f"{tmp_path} must hold one wheel and one source archive, not 0 and 0"
    ]
    for extra in ((), ("manykernels/old/__pycache__/x.pyc", "tests/test_x.py")):
        with zipfile.ZipFile(tmp_path / "manykernels-1-py3-none-any.whl", "w") as wheel:
            for name in (*distribution.IN_WHEEL, *extra):
                wheel.writestr(name, "")
        with tarfile.open(tmp_path / "manykernels-1.tar.gz", "w:gz") as archive:
            for name in distribution.IN_ARCHIVE:
                archive.addfile(tarfile.TarInfo(f"manykernels-1/{name}"))
        found = list(distribution.complaints(tmp_path))
        assert len(found) == len(extra)
    assert any("tests/test_x.py is no part of the package" in line for line in found)

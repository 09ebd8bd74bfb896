"""Model files with one value, array or header changed at random, and whether they are refused or work."""

from __future__ import annotations

import copy
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from manykernels import InvalidInputError, load_model
from manykernels.exceptions import ModelFileError
from manykernels.inspection import MKLReport, summary_html

VALUES: list[Any] = [
    None, 0, -1, 2, 10**19, 10**400, 1e308, 0.5, "", "x", [], {}, [1], ["x"], True, {"float": "nan"}, {"tuple": []},
    {"tuple": ["a", "b"]}, {"dict": []}, {"labels": ["a"]}, {"array": "0000_x"}, {"slice": [None, None, None]},
    {"table": {}}, {"kernel": {"kernel": "linear"}}, {"status": "converged"}, {"pipeline": []},
]  # fmt: skip
BYTES = list(b"([{'\"0,:)]}x\\ \n#\x00\xff")


def works(path: Path, rows: Any) -> bool:
    """Tell whether a file is taken; if so, all that its model offers must work, or be refused in words."""
    try:
        model = load_model(path)
    except ModelFileError:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = ["predict", "decompose", *(["decision_function"] if hasattr(model, "classes_") else [])]
        for ask in (getattr(model, name) for name in asked if hasattr(model, name)):
            with suppress(InvalidInputError):  # numbers that other scales make too large for the kernels
                ask(rows)
        model.weights_frame()
        MKLReport.from_estimator(model).summary()
        summary_html(model)
        repr(model)
    return True


def mutated(members: dict[str, bytes], rng: np.random.Generator, path: Path) -> str:
    """Write an archive with one value, array or header changed; return what was changed."""
    found = dict(members)
    document = json.loads(found.pop("model.json"))
    what = change_document(document["model"], rng) if rng.random() < 0.6 else change_array(found, rng)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", json.dumps(document))
        for name, data in found.items():
            archive.writestr(name, data)
    return what


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value inside a document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def at(node: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at a place."""
    for key in path:
        node = node[key]
    return node


def change_document(model: Any, rng: np.random.Generator) -> str:
    """Replace, delete, copy, repeat or bend one value."""
    every = list(places(model))
    place, other = (every[int(k)] for k in rng.integers(len(every), size=2))
    parent, key, how = at(model, place[:-1]), place[-1], int(rng.integers(5))
    value = copy.deepcopy(parent[key])
    if how == 0:
        parent[key] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])
    elif how == 1:
        del parent[key]
    elif how == 2:
        parent[key] = copy.deepcopy(at(model, other))
    elif how == 3 and isinstance(parent, list):
        parent.append(value)
    elif how == 3:
        parent["other"] = parent.pop(key)
    elif isinstance(value, (int, float)):
        parent[key] = [value + 1, -value, 10 * value, str(value)][int(rng.integers(4))]
    else:
        parent[key] = value[:-1] if isinstance(value, (str, list)) else [value]
    return f"document at {place}, way {how}"


def change_array(members: dict[str, bytes], rng: np.random.Generator) -> str:
    """Change a byte of a header, a value, the shape or the type of one array, or give it the place of another."""
    names = sorted(members)
    name, other = (names[int(k)] for k in rng.integers(len(names), size=2))
    how, array = int(rng.integers(6)), np.load(io.BytesIO(members[name]))
    if how == 0:
        data = bytearray(members[name])
        data[int(rng.integers(100))] = int(rng.choice(BYTES))
        members[name] = bytes(data)
        return f"header of {name}"
    changes: list[Callable[[], np.ndarray]] = [
        lambda: np.where(np.arange(array.size).reshape(array.shape) == 0, -1, array).astype(array.dtype),
        lambda: array[:-1] if array.ndim and len(array) else array[None],
        lambda: array[..., None] if rng.random() < 0.5 else array.ravel(),
        lambda: array.astype("U5" if array.dtype.kind == "U" else str(rng.choice(["f4", "i8", "i4", "U5", "?"]))),
        lambda: np.load(io.BytesIO(members[other])),
    ]
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(changes[how - 1]()), version=(1, 0), allow_pickle=False)
    members[name] = stream.getvalue()
    return f"array {name}, way {how}, {other}"

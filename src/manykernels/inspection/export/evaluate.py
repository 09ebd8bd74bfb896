r"""Scores of an exported model from plain lists: the text of the module stands in every exported Python file.

A model is :math:`f_k(x) = b_k + \sum_t \sum_{a, \dots} c^t_{\text{cell}(x), a, \dots, k}\, u_1^a u_2^{a'} \cdots +
\sum_s \sum_i c^s_{ik} k_s(x, z_i)`: terms of few columns as polynomials on cells, and kernels of several columns with
points. A row falls into a single cell of every axis of a term; ``u`` is the place within the cell.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

SMOOTH = 4  # coefficients of a cubic polynomial along an axis of pieces
UNSEEN = -1.7976931348623157e308  # the number of a category that the model does not know


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN or the NA of pandas."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def as_float(value: Any) -> float:
    """Return a number, or a date as days since 1970-01-01 (in UTC for a time zone)."""
    if not hasattr(value, "toordinal"):
        return float(value)
    days = value.toordinal() - 719163.0
    if hasattr(value, "hour"):
        seconds = 3600 * value.hour + 60 * value.minute + value.second + 1e-6 * value.microsecond
        days += (seconds - (value.utcoffset().total_seconds() if value.tzinfo else 0.0)) / 86_400
    return days


def as_numbers(values: Sequence) -> np.ndarray:
    """Return a column as numbers, (n,): NaN where a value is missing, dates as days since 1970-01-01."""
    column = np.asarray(values)
    if column.dtype.kind in "Mm":
        steps = column.astype(f"{column.dtype.kind}8[us]").astype(np.int64)
        return np.where(np.isnat(column), np.nan, steps / 86_400e6)
    if column.dtype == object:
        return np.array([np.nan if is_missing(value) else as_float(value) for value in column], dtype=np.float64)
    return np.asarray(column, dtype=np.float64)


def as_text(level: object) -> str:
    """Return a category as text: the same for 1 and 1.0."""
    if isinstance(level, (float, np.floating)) and np.isfinite(level) and level == np.floor(level):
        return str(int(level))
    return str(level)


def as_number(text: str) -> str:
    """Return the canonical text of a numeric text: "1" for "1.0"; other texts unchanged."""
    plain = re.fullmatch(r"[+-]?(0|[1-9]\d*)(\.\d+)?", text)
    return text if plain is None else as_text(float(text) if plain[2] else int(text))


def texts_of(levels: Sequence) -> dict:
    """Return the position of every level by text, then by equivalent values: 1.0, 0 or 1 of a boolean."""
    places = {as_text(level): place for place, level in reversed(list(enumerate(levels)))}
    for place, level in enumerate(levels):
        places.setdefault(str(int(level)) if isinstance(level, bool) else as_number(as_text(level)), place)
    return places


def places_of(levels: Sequence, values: Sequence) -> np.ndarray:
    """Return the position of every value among levels, (n,): the number of levels if unseen, plus one if missing."""
    places, n = texts_of(levels), len(levels)
    texts = [None if is_missing(value) else as_text(value) for value in values]
    found = [n + 1 if text is None else places.get(text, places.get(as_number(text), n)) for text in texts]
    return np.array(found, dtype=np.int64)


def cells(axis: dict, values: Sequence) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell of every value of a column, (n,), and the place within the cell, (n,)."""
    kind = axis["kind"]
    if kind == "levels":
        found = places_of(axis["levels"], values)
        return found, np.zeros(len(found))
    numbers = as_numbers(values)
    gaps = np.isnan(numbers)
    if kind == "steps":
        n = len(axis["edges"]) + 1
        return np.where(gaps, n, np.searchsorted(axis["edges"], numbers, side="right")), np.zeros(len(numbers))
    if kind == "numbers":
        n = len(axis["levels"])
        known = np.array([*axis["levels"], np.inf])  # increasing
        at = np.searchsorted(known[:-1], numbers)
        return np.where(gaps, n + 1, np.where(known[at] == numbers, at, n)), np.zeros(len(numbers))
    if axis.get("edges"):
        return between(np.asarray(axis["edges"]), numbers)
    n = axis["n_pieces"]
    scaled = np.where(gaps, 0.0, (numbers - axis["low"]) / ((axis["high"] - axis["low"]) / n))
    if axis.get("period"):
        scaled = scaled - n * np.floor(scaled / n)
    piece = np.floor(np.clip(scaled, 0.0, n - 1)).astype(np.int64)
    below, above = scaled < 0, scaled > n
    cell = np.where(gaps, n + 2, np.where(below, n, np.where(above, n + 1, piece)))
    start = np.where(below, 0.0, np.where(above, float(n), piece))
    return cell, np.where(gaps, 0.0, scaled - start)


def between(edges: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the piece between edges of every number, (n,), and the place within the piece, (n,)."""
    n, gaps = len(edges) - 1, np.isnan(numbers)
    below, above = numbers < edges[0], numbers > edges[n]
    piece = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, n - 1)
    start = np.where(above, edges[n], edges[piece])
    length = np.where(below | above, (edges[n] - edges[0]) / n, edges[piece + 1] - edges[piece])
    cell = np.where(gaps, n + 2, np.where(below, n, np.where(above, n + 1, piece)))
    return cell, np.where(gaps, 0.0, (numbers - start) / length)


def compressed(values: Sequence, middle: float, unit: float) -> np.ndarray:
    """Return a column with heavy tails as terms read it: in units from the middle, compressed beyond the first."""
    places = (as_numbers(values) - middle) / unit
    sizes = np.abs(places)
    return np.where(sizes > 1.0, np.sign(places) * (3.0 - 4.0 / (1.0 + sizes)), places)


def term_values(term: dict, rows: Mapping) -> np.ndarray:
    """Return the contribution of a term to every score, (n, K)."""
    coefficients = np.asarray(term["coefficients"], dtype=np.float64)
    flat = np.zeros(len(rows[term["axes"][0]["column"]]), dtype=np.int64)
    powers: list[tuple] = [()]
    for axis in term["axes"]:
        cell, inside = cells(axis, rows[axis["column"]])
        smooth = axis["kind"] == "pieces"
        n_cells = axis["n_pieces"] + 3 if smooth else len(axis.get("edges", axis.get("levels"))) + 2
        flat = flat * n_cells + cell
        powers = [(*before, (inside, a)) for before in powers for a in range(SMOOTH if smooth else 1)]
    total = np.zeros((len(flat), coefficients.shape[2]))
    for place, factors in enumerate(powers):
        part = coefficients[:, place][flat]
        for inside, a in factors:
            part = part * inside[:, None] ** a
        total += part
    return total


def kernel_values(part: dict, rows: Mapping) -> np.ndarray:
    """Return the contribution of a kernel of several columns to every score, (n, K)."""
    columns = []
    for reader in part["readers"]:
        values = rows[reader["column"]]
        if "codes" in reader:
            codes = np.array([*reader["codes"], UNSEEN, np.nan])
            columns.append(codes[places_of(reader["levels"], values)])
        else:
            columns.append(as_numbers(values))
    points = (np.column_stack(columns) - part["means"]) / part["scales"]
    gaps = np.isnan(points).any(axis=1)
    points = np.where(gaps[:, None], 0.0, points)
    own, weights = np.asarray(part["points"]), np.asarray(part["coefficients"])
    out = np.empty((len(points), weights.shape[1]))
    for start in range(0, len(points), 1024):
        out[start : start + 1024] = kernel_matrix(part["kernel"], points[start : start + 1024], own) @ weights
    out += part["offsets"]
    out[gaps] = 0.0 if part["masks"] else np.nan
    return out


def kernel_matrix(kernel: dict, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the kernel between two sets of points, (n, m)."""
    name = kernel["kernel"]
    if "columns" in kernel:
        a, b = a[:, kernel["columns"]], b[:, kernel["columns"]]
    if "units" in kernel:
        a, b = a * np.array(kernel["units"]), b * np.array(kernel["units"])
    if name in ("sum", "product"):
        values = kernel_matrix(kernel["parts"][0], a, b)
        for part in kernel["parts"][1:]:
            other = kernel_matrix(part, a, b)
            values = values + other if name == "sum" else values * other
        return kernel.get("factor", 1.0) * values
    if name == "polynomial":
        return (kernel["scale"] * (a @ b.T) + kernel["offset"]) ** kernel["degree"]
    if name == "power":
        a, b = ((each ** kernel["degree"] - kernel["center"]) / kernel["scale"] for each in (a, b))
        return a @ b.T
    if name == "gaussian":
        a, b = a - b.mean(axis=0), b - b.mean(axis=0)  # far from zero squares would lose digits
        squares = np.maximum((a**2).sum(axis=1)[:, None] - 2 * (a @ b.T) + (b**2).sum(axis=1), 0.0)
        return np.exp(-0.5 * squares)
    total = np.zeros((len(a), len(b)))
    for left, right in zip(a.T, b.T, strict=True):
        apart = np.abs(left[:, None] - right)
        if name == "laplacian":
            total -= apart
        elif name == "matern":  # whose root of a small difference of squares would be wrong
            total += apart**2
        elif name == "periodic":
            total -= 2.0 / kernel["width"] ** 2 * np.sin(np.pi / kernel["period"] * apart) ** 2
        else:  # overlap and ordinal: means over columns
            near = (apart == 0) if name == "overlap" else np.maximum(0.0, 1.0 - apart)
            total += near * (left != UNSEEN)[:, None] / a.shape[1]
    if name == "matern":
        r = np.minimum(np.sqrt(total * 2 * kernel["nu"]), 1e3)
        return np.exp(-r) * {0.5: 1.0, 1.5: 1 + r, 2.5: 1 + r + r**2 / 3}[kernel["nu"]]
    return np.exp(total) if name in ("laplacian", "periodic") else total


def scores(model: dict, rows: Mapping | Sequence) -> np.ndarray:
    """Return the scores of rows, (n, K).

    Parameters
    ----------
    model : dict
        Terms, kernels and constants.
    rows : mapping of str to array-like of shape (n,), or list of mappings
        Columns by name, for example a DataFrame, or one dictionary per row: numbers, texts, dates, and NaN or None for
        missing values.
    """
    if isinstance(rows, (list, tuple)):
        n_rows = len(rows)
        rows = {name: [row[name] for row in rows] for name in model["columns"]}
    else:
        n_rows = len(rows[(model["columns"] or list(rows))[0]])
        rows = {name: rows[name] for name in model["columns"]}
    total = np.zeros((n_rows, len(model["intercept"]))) + model["intercept"]
    rows.update({name: compressed(rows[name], *tails) for name, tails in model["tails"].items()})
    for term in model["terms"]:
        total = total + term_values(term, rows)
    for part in model["kernels"]:
        total = total + kernel_values(part, rows)
    return total


def probabilities(model: dict, rows: Mapping | Sequence) -> np.ndarray:
    """Return the probability of every class, (n, n_classes), or of every label, of a model that has them."""
    found = scores(model, rows)
    if model["probabilities"] == "labels":
        return np.exp(-np.logaddexp(0.0, -found))
    if model["probabilities"] == "sigmoid":
        return np.exp(-np.logaddexp(0.0, np.hstack([found, -found])))
    logs = found if model["probabilities"] == "softmax" else -np.logaddexp(0.0, -found)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def predict(model: dict, rows: Mapping | Sequence) -> np.ndarray:
    """Return the predictions of rows: classes, numbers, or of survival models the logarithms of relative hazards."""
    found = scores(model, rows)
    classes = model["classes"]
    if classes is not None and len(classes) == 2 < 1 + found.shape[1]:  # labels of 0 and 1
        return (found > 0).astype(int)
    if classes is not None:
        return np.array(classes)[(found[:, 0] > 0).astype(int) if found.shape[1] == 1 else found.argmax(axis=1)]
    found = np.exp(found) if model["link"] == "exp" else np.sort(found, axis=1) if model["link"] == "sort" else found
    return found[:, 0] if model["single"] else found

r"""Scores of an exported model from plain lists: the text of this module stands in every exported Python file.

A model is :math:`f_k(x) = b_k + \sum_t \sum_{a, \dots} c^t_{\text{cell}(x), a, \dots, k}\, u_1^a u_2^{a'} \cdots +
\sum_s \sum_i c^s_{ik} k_s(x, z_i)`: terms of few columns, which are polynomials on cells, and kernels of many columns,
which have points. A row falls into one cell of each axis of a term; ``u`` is where it is in that cell.
"""

from collections.abc import Mapping, Sequence

import numpy as np

SMOOTH = 4  # coefficients of a cubic polynomial along an axis of pieces


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN or the NA of pandas, which compares with nothing."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def as_numbers(values: Sequence) -> np.ndarray:
    """Return a column as numbers, (n,): NaN where a value is missing, dates as days since 1970-01-01."""
    column = np.asarray(values)
    if column.dtype.kind in "Mm":
        steps = column.astype(f"{column.dtype.kind}8[us]").astype(np.int64)
        return np.where(np.isnat(column), np.nan, steps / 86_400e6)
    if column.dtype == object:
        return np.array([np.nan if is_missing(value) else value for value in column], dtype=np.float64)
    return np.asarray(column, dtype=np.float64)


def cells(axis: dict, values: Sequence) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell of every value of a column, (n,), and where the value is in it, (n,)."""
    kind = axis["kind"]
    if kind == "levels":
        places = {level: place for place, level in enumerate(axis["levels"])}
        n = len(places)
        found = [n + 1 if is_missing(value) else places.get(value, n) for value in values]
        return np.array(found, dtype=np.int64), np.zeros(len(found))
    numbers = as_numbers(values)
    gaps = np.isnan(numbers)
    if kind == "steps":
        n = len(axis["edges"]) + 1
        return np.where(gaps, n, np.searchsorted(axis["edges"], numbers, side="right")), np.zeros(len(numbers))
    n = axis["n_pieces"]
    scaled = np.where(gaps, 0.0, (numbers - axis["low"]) / ((axis["high"] - axis["low"]) / n))
    piece = np.floor(np.clip(scaled, 0.0, n - 1)).astype(np.int64)
    below, above = scaled < 0, scaled > n
    cell = np.where(gaps, n + 2, np.where(below, n, np.where(above, n + 1, piece)))
    start = np.where(below, 0.0, np.where(above, float(n), piece))
    return cell, np.where(gaps, 0.0, scaled - start)


def term_values(term: dict, rows: Mapping) -> np.ndarray:
    """Return what a term adds to every score, (n, K)."""
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
    """Return what a kernel of many columns adds to every score, (n, K)."""
    columns = [as_numbers(rows[name]) for name in part["columns"]]
    points = (np.column_stack(columns) - part["means"]) / part["scales"]
    gaps = np.isnan(points).any(axis=1)
    points = np.where(gaps[:, None], 0.0, points)
    own, weights = np.asarray(part["points"]), np.asarray(part["coefficients"])
    out = np.empty((len(points), weights.shape[1]))
    for start in range(0, len(points), 4096):
        out[start : start + 4096] = kernel_matrix(part, points[start : start + 4096], own) @ weights
    out += part["offsets"]
    out[gaps] = 0.0 if part["masks"] else np.nan
    return out


def kernel_matrix(part: dict, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the kernel between two sets of points, (n, m)."""
    kernel, inner = part["kernel"], a @ b.T
    if kernel == "linear":
        return inner
    if kernel == "polynomial":
        return (part["scale"] * inner + part["offset"]) ** part["degree"]
    squares = np.maximum((a**2).sum(axis=1)[:, None] - 2 * inner + (b**2).sum(axis=1), 0.0)
    if kernel == "gaussian":
        return np.exp(-0.5 * squares)
    r = np.minimum(np.sqrt(squares * 2 * part["nu"]), 1e3)
    return np.exp(-r) * {0.5: 1.0, 1.5: 1 + r, 2.5: 1 + r + r**2 / 3}[part["nu"]]


def scores(model: dict, rows: Mapping) -> np.ndarray:
    """Return the scores of rows, (n, K).

    Parameters
    ----------
    model : dict
        Terms, kernels and constants.
    rows : mapping of str to array-like of shape (n,)
        Columns by name, such as a DataFrame: numbers, texts, dates, and NaN or None for what is missing.
    """
    first = (model["columns"] or list(rows))[0]
    total = np.zeros((len(rows[first]), len(model["intercept"]))) + model["intercept"]
    for term in model["terms"]:
        total = total + term_values(term, rows)
    for part in model["kernels"]:
        total = total + kernel_values(part, rows)
    return total


def probabilities(model: dict, rows: Mapping) -> np.ndarray:
    """Return the probability of every class, (n, n_classes), of a model that has them."""
    found = scores(model, rows)
    if model["probabilities"] == "sigmoid":
        return 1.0 / (1.0 + np.exp(np.hstack([found, -found])))
    logs = found if model["probabilities"] == "softmax" else -np.logaddexp(0.0, -found)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def predict(model: dict, rows: Mapping) -> np.ndarray:
    """Return the predictions of rows: classes, numbers, or of survival models the logarithms of relative hazards."""
    found = scores(model, rows)
    classes = model["classes"]
    if classes is not None:
        return np.array(classes)[(found[:, 0] > 0).astype(int) if found.shape[1] == 1 else found.argmax(axis=1)]
    found = np.exp(found) if model["link"] == "exp" else np.sort(found, axis=1) if model["link"] == "sort" else found
    return found[:, 0] if model["single"] else found

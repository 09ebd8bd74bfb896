"""Centering and scaling of kernels, learned on training rows, with the form each takes on new rows.

In the order, for every kernel:

1. *centering* (``center=True``): ``k_c(x, z) = k(x, z) - r(x) - r(z) + g`` with ``r(x)`` the mean of ``k(x, x_i)`` over
   the training rows and ``g`` the mean of ``r`` over them. New rows are centered by the *training* mean.
2. *scaling*: ``"trace"`` divides by the sum, ``"mean_diagonal"`` by the mean, of the training diagonal;
   ``"unit_diagonal"`` divides ``k(x, z)`` by ``sqrt(k(x, x) k(z, z))``; None does nothing.

A row with a missing column of a kernel is zero. Means and scales come from the present rows, so a kernel with gaps
equals the kernel of the present rows alone.

Scaling comes last so the normalized kernel has the property that the name promises.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from manykernels.compiled import compiled
from manykernels.exceptions import InvalidInputError
from manykernels.kernels.tables.encoding import Encoding
from manykernels.kernels.tables.tails import compress_tails, has_many_values, reaches_far, tails_of
from manykernels.validation.arrays import Array, Order, read_only

# Column statistics of the training rows, safe at every scale that float64 can hold.


def column_blocks(values: Array) -> Iterator[slice]:
    """Yield slices of columns, of about some hundred thousand entries."""
    rows = max(1, len(values))
    block_entries = 2**19  # of columns that are looked at together: temporaries stay small beside a large table
    step = max(1, block_entries // rows)
    if values.flags.f_contiguous:
        cached_entries = 2**18  # where columns lie one after the other: temporaries stay in a cache
        step = max(min(step, 2), cached_entries // rows)  # sums of single columns have other bits
    for start in range(0, values.shape[1], step):
        yield slice(start, min(start + step, values.shape[1]))


def column_summaries(columns: Array) -> Array:
    """Return minimum, maximum, mean and standard deviation of columns (p, n), (p, 4); NaN and infinity show.

    Safe at every scale that float64 can hold: sums and squares are of columns times powers of two.
    """
    low, high = columns.min(axis=1), columns.max(axis=1)
    exponents = np.clip(np.frexp(np.maximum(-low, high).astype(np.float64))[1], -1022, 1022)
    sums = np.empty((len(columns), 2))
    with np.errstate(invalid="ignore"):
        sums_by_columns(read_only(columns), np.ldexp(1.0, -exponents), sums)
    return np.column_stack([low, high, np.ldexp(sums, exponents[:, None])])


def column_statistics(values: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of every column over present values; 1 for a constant column."""
    if values.flags.f_contiguous and len(values):
        low, high, known, spread = column_summaries(values.T).T
        if np.isfinite(high - low).all():
            constant = (low == high) | (spread <= 4 * np.finfo(np.float64).eps * np.maximum(-low, high))
            return known, np.where(constant, 1.0, spread)
    means, deviations = np.empty(values.shape[1]), np.empty(values.shape[1])
    for at in column_blocks(values):
        block = values[:, at]
        if np.isnan(block).any():
            parts = [_complete_statistics(column[~np.isnan(column), None]) for column in block.T]
            means[at], deviations[at] = (np.concatenate(own) for own in zip(*parts, strict=True))
        else:
            means[at], deviations[at] = _complete_statistics(block)
    return means, deviations


def heavy_tails(values: Array, places: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Return the middle and the unit by which columns with heavy tails are compressed, of some places of (n, p)."""
    means, deviations = column_statistics(values)
    low, high = (extreme.reduce(values, axis=0, initial=np.nan) for extreme in (np.fmin, np.fmax))
    far = reaches_far(np.isfinite(values).sum(axis=0), low, high, means, deviations)
    reaching = [k for k in places if far[k]]
    together = 1024  # columns whose values are counted at once
    many = [has_many_values(values[:, reaching[k : k + together]]) for k in range(0, len(reaching), together)]
    heavy = [k for k, found in zip(reaching, np.concatenate([*many, []]), strict=True) if found]
    return {k: tails_of(np.asarray(values[:, k], dtype=np.float64), float(deviations[k])) for k in heavy}


def encode_tails(values: Array, encodings: Sequence[Encoding | None]) -> Array:
    """Return a copy of columns (n, p), those compressed with an encoding here."""
    values = np.array(values, dtype=np.float64, order="F" if values.flags.f_contiguous else "C")
    for k, encoding in enumerate(encodings):
        if encoding is not None and encoding.tails is not None:
            values[:, k] = compress_tails(values[:, k], *encoding.tails)
    return values


def scales_of_columns(low: Array, high: Array, means: Array, deviations: Array) -> Array:
    """Return the deviations of columns, enlarged for columns that are mostly at one end of their range.

    Divided by deviations, values away from that end would be the larger the rarer they are, so that words of a single
    text, rare levels or pixels at an edge decide all distances. With ``x`` the distance from the end, the scale is ``E
    x^2 / (2 E x)``, half the usual size of such values: half the range of a column of two values, however rare.

    Source: A. Gelman, "Scaling regression inputs by dividing by two standard deviations", Statistics in Medicine 27
    (2008), which leaves columns of two values as they are.

    Examples
    --------
    >>> means = np.array([0.5, 0.01, 0.99])
    >>> scales_of_columns(np.zeros(3), np.ones(3), means, np.sqrt(means * (1 - means))).round(2).tolist()
    [0.5, 0.5, 0.5]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.minimum(means - low, high - means)
        rare = (near > 0.0) & (deviations > near) & (deviations <= high - low)  # where constant, deviations are 1
        return np.where(rare, 0.5 * (near + deviations * (deviations / np.where(rare, near, 1.0))), deviations)


def distinct_counts(values: Array, most: int) -> Array:
    """Return how many different values every column has, at most so many; gaps count as a single value."""
    counts, few = np.zeros(values.shape[1], dtype=np.int64), np.arange(values.shape[1])
    for rows in {min(2 * most, len(values)): None, len(values): None}:  # most columns have enough in the first ones
        ordered = np.sort(values[:rows, few], axis=0)  # with gaps at the end
        gaps = np.isnan(ordered[[0, -1]])
        counts[few] = np.minimum((ordered[1:] > ordered[:-1]).sum(axis=0) + ~gaps[0] + gaps[1], most)
        few = np.flatnonzero(counts < most)
    return counts


def present_medians(values: Array) -> Array:
    """Return the median of every column over present values, 0 if empty."""
    medians = np.empty(values.shape[1])
    for at in column_blocks(values):
        medians[at] = _block_medians(values[:, at])
    return medians


def _block_medians(values: Array) -> Array:
    """Return the median of a few columns."""
    gaps = np.isnan(values)
    with np.errstate(over="ignore"):
        if not gaps.any():
            return np.median(values, axis=0)
        kept = [column[~gap] for column, gap in zip(values.T, gaps.T, strict=True)]
        return np.array([np.median(column) if len(column) else 0.0 for column in kept])


@compiled(fastmath={"reassoc", "contract", "nsz"})
def sums_by_columns(columns: Array, factors: Array, out: Array) -> None:
    """Write mean and standard deviation of every column (p, n), times the factor, into ``out`` (p, 2).

    A factor is a power of two that keeps squares inside float64. Some rows are summed at a time: sums of very many
    would be rounded more, and a column is still in a cache when read again.
    """
    n = columns.shape[1]
    summed_rows = 4096
    for j in range(columns.shape[0]):
        column, factor = columns[j], factors[j]
        mean, square = 0.0, 0.0
        for start in range(0, n, summed_rows):
            total = 0.0
            for i in range(start, min(start + summed_rows, n)):
                total += column[i] * factor
            mean += total
        mean /= n
        for start in range(0, n, summed_rows):
            total = 0.0
            for i in range(start, min(start + summed_rows, n)):
                total += (column[i] * factor - mean) ** 2
            square += total
        out[j, 0], out[j, 1] = mean, np.sqrt(square / n)


def _complete_statistics(values: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of columns without gaps; 0 and 1 where there are no rows."""
    if not len(values):
        return np.zeros(values.shape[1]), np.ones(values.shape[1])
    largest = np.abs(values).max(axis=0)
    size = np.where(largest > 0, largest, 1.0)
    # Dividing first keeps sums and squares inside float64, from 1e-300 to 1e300.
    with np.errstate(under="ignore"):
        relative = values / size
        means = relative.mean(axis=0)
        deviations = relative.std(axis=0)
        constant = (np.ptp(relative, axis=0) == 0) | (deviations <= 4 * np.finfo(np.float64).eps)
        return means * size, np.where(constant, 1.0, deviations * size)


def standardized(
    values: Array, means: Array, deviations: Array, *, out: Array | None = None, order: Order = "C"
) -> Array:
    """Return ``(values - means) / deviations`` column by column, in ``out`` if given; the values if nothing changes."""
    if not means.any() and (deviations == 1.0).all():
        return values
    if out is None and order == "F":
        out = np.empty(values.shape, order="F")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        out = np.subtract(values, means, out=out)
        return np.divide(out, deviations, out=out)


NORMALIZATIONS = ("trace", "mean_diagonal", "unit_diagonal", None)

# Diagonals below this are lost among denormal numbers: products of them are rounded to a few bits.
SMALLEST_DIAGONAL = 1e-290
# A centered diagonal this small beside the one before centering is rounding, not a kernel.
CENTERED_ZERO = 1e-12


def check_normalization(normalize: object) -> str | None:
    """Return ``normalize`` if known, else raise an error with the choices."""
    if normalize not in NORMALIZATIONS:
        raise InvalidInputError(f"normalize must be one of {', '.join(map(repr, NORMALIZATIONS))}, got {normalize!r}.")
    return normalize


def centered_diagonal(diagonal: Array, row_means: Array, grand_mean: Array | float) -> Array:
    """Return the diagonal of the centered kernel; what is rounding beside the diagonal itself becomes zero.

    Beside the largest entry too: a row at the mean of all has nothing but the rounding of the grand mean.
    """
    centered = diagonal - 2.0 * row_means + grand_mean
    largest = np.abs(diagonal).max(axis=-1, keepdims=True, initial=0)
    eps_of_means = 1e-2  # of CENTERED_ZERO: what rounding may make of a grand mean beside the largest diagonal entry
    size = np.abs(diagonal) + 2.0 * np.abs(row_means) + np.abs(grand_mean) + eps_of_means * largest
    return np.where(np.abs(centered) <= CENTERED_ZERO * size, 0.0, centered)


def training_scales(
    diagonals: Array, normalize: str | None, names: tuple[str, ...], counts: Array | None = None
) -> Array:
    """Return the factors of kernels from their (centered) training diagonals (M, N); 0 for a kernel that is zero.

    ``counts`` (M,) are the rows that every kernel is known on, all N for None; the diagonal is zero on the rest.
    """
    for m in np.flatnonzero(~((diagonals >= 0) & (diagonals < np.inf)).all(axis=1)):
        check_diagonal(diagonals[m], names[m])
    zero = ~diagonals.any(axis=1)
    with np.errstate(over="ignore", under="ignore"):
        counts = np.full(len(diagonals), diagonals.shape[1]) if counts is None else np.maximum(counts, 1)
        means = diagonals.mean(axis=1) * (diagonals.shape[1] / counts)
    for m in np.flatnonzero(~zero & ~((means >= SMALLEST_DIAGONAL) & (means <= 1 / SMALLEST_DIAGONAL))):
        raise InvalidInputError(
            f"Kernel {names[m]!r} has a mean diagonal of {means[m]:.3g}, at the end of the range of float64. Rescale "
            "its columns, for instance with standardize=True."
        )
    if normalize in (None, "unit_diagonal"):
        return np.where(zero, 0.0, 1.0)
    totals = np.where(zero, 1.0, means * counts if normalize == "trace" else means)
    return np.where(zero, 0.0, 1.0 / totals)


def check_diagonal(diagonal: Array, name: str) -> Array:
    """Return ``k(x, x)`` if finite and nonnegative up to rounding, else raise an error."""
    if not np.isfinite(diagonal).all():
        raise InvalidInputError(
            f"Kernel {name!r} overflows: k(x, x) is not finite for {int((~np.isfinite(diagonal)).sum())} row(s). "
            "Rescale its columns, for instance with standardize=True."
        )
    if (diagonal < -CENTERED_ZERO * np.abs(diagonal).max(initial=0.0)).any():  # less is rounding, of centering for one
        raise InvalidInputError(
            f"Kernel {name!r} is not positive semidefinite: its diagonal has the entry {float(diagonal.min()):.3g}."
        )
    return diagonal


def unit_factors(diagonal: Array) -> Array:
    """Return ``1 / sqrt(k(x, x))``, and 0 for a zero diagonal."""
    positive = diagonal > 0
    return np.where(positive, 1.0 / np.sqrt(np.where(positive, diagonal, 1.0)), 0.0)


def normalize_block(
    block: Array,
    scale: float,
    means: tuple[Array, Array, float] | None,
    factors: tuple[Array, Array] | None,
) -> None:
    """Center and scale a single kernel's (r, c) block in place."""
    if means is not None:
        # One symmetric correction, so that an exactly symmetric block stays so.
        block -= means[0][:, None] + means[1]
        block += means[2]
    if factors is not None:
        block *= factors[0][:, None] * factors[1]
    if scale != 1.0:
        block *= scale

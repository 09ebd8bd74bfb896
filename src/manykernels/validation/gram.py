"""Check precomputed Gram matrices: finite and symmetric in a single pass, definiteness where it matters.

Finite and symmetric entries are checked at the speed of memory. A Cholesky factorization of every kernel would cost
more than most fits. Beyond `FULL_CHECK_FLOPS` (``psd="auto"``) only the kernels of a returned model are proven, and
a negative quadratic form ``rho' K rho`` reveals further indefinite kernels. A certificate needs no more, since bounds
read kernels through quadratic forms only.

Negative eigenvalues at the size of rounding in the entries stay unchanged. Larger eigenvalues, up to a tolerance that
depends on the storage, are set to zero in a copy, since bounds need definite kernels. Beyond the tolerance the kernel
is rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.linalg.lapack import dpotrf

from manykernels.compiled import compiled
from manykernels.exceptions import InvalidInputError, NotPSDError, warn
from manykernels.threads import blas_threads
from manykernels.validation.arrays import Array, check_choice, check_finite, real_array

PSD_MODES = ("auto", "raise", "clip", "ignore")
FULL_CHECK_FLOPS = 1e9  # about a tenth of a second of Cholesky factorizations; 1000 kernels on 140 samples
SHARE_OF_ONE_FIT = 0.05  # of that, for kernels of a single fit: a few milliseconds, as the fit takes itself
ROUNDING = 8.0  # times sqrt(N) eps max|K|: twice the norm of a matrix of rounding errors in the entries


def gram_tolerance(dtype: DTypeLike) -> float:
    """Return the relative error of a Gram matrix stored as ``dtype``."""
    return 1e-5 if np.dtype(dtype) == np.float32 else 1e-8


def check_gram_array(kernels: Any, name: str = "kernels") -> Array:
    """Return ``kernels`` as a finite, symmetric, contiguous float32 or float64 array of shape (M, N, N)."""
    if isinstance(kernels, Mapping):
        raise InvalidInputError(f"{name} is a {type(kernels).__name__}. Pass numpy.stack(list({name}.values())).")
    array = real_array(kernels, name)
    if array.ndim != 3 or array.shape[1] != array.shape[2]:
        hint = f" For one kernel pass {name}[None]." if array.ndim == 2 else ""
        raise InvalidInputError(
            f"{name} must have shape (n_kernels, n_samples, n_samples), got {array.shape}. Kernels are the first axis."
            + hint
        )
    if 0 in array.shape:
        raise InvalidInputError(f"{name} must hold at least one kernel and one sample, got shape {array.shape}.")
    array = np.ascontiguousarray(array)
    largest, asymmetry = scan_grams(array)
    for m in np.flatnonzero(~np.isfinite(largest)):
        check_finite(array[m], f"{name}[{m}]")
    # Where the screen overflows it knows nothing, hence the negation.
    for m in np.flatnonzero(~(asymmetry <= 0.5 * gram_tolerance(array.dtype) * largest)):
        check_symmetric(array[m], f"{name}[{m}]")
    return array


def check_rectangular_grams(kernels: ArrayLike, name: str = "kernels") -> Array:
    """Return kernels between new and training samples as a finite float array of shape (M, n_new, n_train)."""
    array = real_array(kernels, name)
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidInputError(
            f"{name} must have shape (n_kernels, n_new, n_train), none of them 0, got {array.shape}. Kernels are the "
            "first axis."
        )
    for m, gram in enumerate(array):
        check_finite(gram, f"{name}[{m}]")
    return array


def scan_grams(array: Array) -> tuple[Array, Array]:
    """Return the largest entry in size of every kernel and a screen for the asymmetry, (M,) each, in one reading.

    The screen is the largest entry of ``(K - K') x`` for a vector with entries from 1 to 2, so an asymmetric pair of
    entries shows with at least the difference; NaN or infinite if it overflows.
    """
    integers: Any = np.int64 if array.dtype == np.float64 else np.int32
    bits = np.zeros(len(array), dtype=integers)
    asymmetry = np.zeros(len(array))
    _scan(array, array.view(integers), integers(np.iinfo(integers).max), _probe(array.shape[1]), bits, asymmetry)
    return bits.view(array.dtype).astype(np.float64), asymmetry


@lru_cache(maxsize=4)
def _probe(n_samples: int) -> Array:
    """Return the vector of the screen: to seed a generator takes longer than to read a few small matrices."""
    return np.random.default_rng(0).uniform(1.0, 2.0, size=n_samples)


@compiled(fastmath={"reassoc", "contract", "nsz"})
def _scan(kernels: Array, bits: Array, mask: np.integer[Any], probe: Array, largest: Array, asymmetry: Array) -> None:
    """Sizes are compared by bits, in the order of the numbers with NaN on top: no branch, no rounding."""
    n = kernels.shape[1]
    columns, rows = np.empty(n), np.empty(n)
    for m in range(kernels.shape[0]):
        columns[:] = 0.0
        top = largest[m]
        for i in range(n):
            row, row_bits, weight = kernels[m, i], bits[m, i], probe[i]
            total = 0.0
            for j in range(n):
                value = row[j]
                total += value * probe[j]
                columns[j] += value * weight
                size = row_bits[j] & mask
                top = size if size > top else top
            rows[i] = total
        largest[m] = top
        worst = 0.0
        for i in range(n):
            gap = abs(rows[i] - columns[i])
            if not gap <= worst:
                worst = gap
                if np.isnan(worst):
                    break
        asymmetry[m] = worst


def check_symmetric(gram: Array, name: str) -> None:
    """Raise ``NotPSDError`` if ``gram`` differs from the transpose by more than rounding."""
    gap = np.abs(gram - gram.T)
    worst = float(gap.max())
    if worst <= gram_tolerance(gram.dtype) * float(np.abs(gram).max()):
        return
    i, j = (int(k) for k in np.unravel_index(int(gap.argmax()), gap.shape))
    raise NotPSDError(
        f"{name} is not symmetric: entry [{i}, {j}] is {gram[i, j]:.6g} but [{j}, {i}] is {gram[j, i]:.6g} "
        f"(difference {worst:.3g}). Pass (K + K.T) / 2 if that is what you mean."
    )


def check_square_kernel(values: object, name: str) -> Array:
    """Return ``values`` as a finite, symmetric float64 matrix among at least one sample."""
    array = check_square(values, name)
    check_symmetric(array, name)
    return array


def check_square(values: object, name: str) -> Array:
    """Return ``values`` as a finite, square float64 matrix of at least one row."""
    array = real_array(values, name)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise InvalidInputError(f"{name} must be a kernel matrix of shape (n, n), got shape {array.shape}.")
    check_finite(array, name)
    return array.astype(np.float64, copy=False)


# --- definiteness --------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Unproven:
    """Kernels of a stack not yet proven positive semidefinite, and replaced kernels."""

    mask: Array  # (M,) bool
    tolerance: float  # of the storage that the kernels came in, which may be coarser than the one they are held in
    name: str = "kernels"  # what the user calls the kernels
    # Kernels for which the nearest definite ones stand: their smallest eigenvalue, as a share of the largest, negated.
    replaced: dict[int, float] = field(default_factory=dict)

    def take(self, kernels: Any) -> Unproven:
        """Return the state of some of the kernels."""
        chosen = np.arange(len(self.mask))[kernels]
        replaced = {slot: self.replaced[m] for slot, m in enumerate(chosen.tolist()) if m in self.replaced}
        return Unproven(self.mask[kernels], self.tolerance, self.name, replaced)

    def prove(self, kernels: Array, gram_of: Callable[[int], Array]) -> tuple[dict[int, Array], dict[int, float]]:
        """Prove kernels; return the nearest definite kernels for indefinite ones within the tolerance, and sizes."""
        nearest = {}
        for m in kernels:
            gram = gram_of(int(m))
            verdict = is_definite(gram, self.tolerance)
            if verdict is False:
                raise NotPSDError(not_definite_message({int(m): gram}, len(self.mask), self.name))
            if verdict is None:
                nearest[int(m)] = nearest_definite(gram)  # not proven for others, who hold the kernel as it came
            else:
                self.mask[m] = False
        sizes = {m: negative_share(gram_of(m)) for m in nearest}
        tell_of_replaced(sizes, len(self.mask), self.name)
        return nearest, sizes

    def betrayed(self, squares: Array, norm: float, diagonals: Callable[[], Array]) -> Array:
        """Return the kernels with ``r' K r`` negative beyond the tolerance; ``norm`` is ``r' r``."""
        negative = np.flatnonzero((squares < 0) & self.mask)
        if not negative.size:
            return negative
        traces = np.maximum(diagonals()[negative].sum(axis=1), 0.0)  # at least the largest eigenvalue
        return negative[squares[negative] < -self.tolerance * traces * norm]


def examined(
    kernels: Array, psd: str = "auto", name: str = "kernels", *, share: float = 1.0
) -> tuple[Array, Unproven | None]:
    """Return Gram matrices checked as ``psd`` says, and the remainder to be proven.

    ``"raise"`` factorizes every kernel and refuses indefinite ones, ``"clip"`` sets their negative eigenvalues to zero
    in a copy, ``"ignore"`` does not look. ``"auto"`` is ``"raise"`` up to ``share`` of `FULL_CHECK_FLOPS`;
    beyond, only kernels with a negative entry on the diagonal are checked at once.
    """
    check_choice(psd, PSD_MODES, "psd")
    tolerance = gram_tolerance(kernels.dtype)
    if psd == "ignore":
        return kernels, None
    chosen, unproven = np.arange(len(kernels)), None
    most = FULL_CHECK_FLOPS * share
    if psd == "auto" and len(kernels) * kernels.shape[1] ** 3 / 3 > most:
        chosen = np.flatnonzero((np.diagonal(kernels, axis1=1, axis2=2) < 0).any(axis=1))
        unproven = Unproven(~np.isin(np.arange(len(kernels)), chosen), tolerance, name)
        if not chosen.size:
            return kernels, unproven
    with blas_threads(kernels.shape[1]):
        verdicts = {int(m): is_definite(kernels[m], tolerance) for m in chosen}
        bad = {m: kernels[m] for m, verdict in verdicts.items() if verdict is False}
        if bad and psd != "clip":
            raise NotPSDError(not_definite_message(bad, len(kernels), name))
        indefinite = [m for m, verdict in verdicts.items() if not verdict]
        if not indefinite:
            return kernels, unproven
        sizes = {m: negative_share(kernels[m]) for m in indefinite}
        if psd != "clip":
            tell_of_replaced(sizes, len(kernels), name)
        if unproven is None:
            unproven = Unproven(np.zeros(len(kernels), dtype=bool), tolerance, name)
        unproven.replaced.update(sizes)
        definite = kernels.copy()
        for m in indefinite:
            definite[m] = nearest_definite(kernels[m])
    return definite, unproven


def is_definite(gram: Array, tolerance: float) -> bool | None:
    """Return whether no eigenvalue is negative beyond rounding; None if negative within the tolerance.

    ``tolerance`` is the rounding of the storage, possibly coarser than the precision of ``gram``. A Cholesky
    factorization with rounding added to the diagonal decides the usual case; eigenvalues are computed only after a
    failure. Only the upper triangle is read, as in later uses of the kernels.
    """
    n, largest = len(gram), float(gram.diagonal().max())
    stored = float(np.finfo(np.float32 if tolerance >= gram_tolerance(np.float32) else gram.dtype).eps)
    arithmetic = 4.0  # times N eps max|K|: what a factorization in float64 adds
    rounding = min(ROUNDING * np.sqrt(n) * stored, tolerance) + arithmetic * n * float(np.finfo(np.float64).eps)
    if largest > 0:  # no entry of a definite matrix is larger than its diagonal: what follows would fail
        smallest_exponent = -1000  # of two, whose inverse still is a number
        # A power of two near it changes no digit, and the factorization can neither overflow nor vanish.
        unit = 2.0 ** -max(math.frexp(largest)[1], smallest_exponent)
        shifted = np.multiply(gram, unit, dtype=np.float64)
        shifted.flat[:: n + 1] += rounding * unit * largest
        if dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)[1] == 0:
            return True
    scale = float(np.abs(gram).max())
    if scale == 0:
        return True
    relative = np.divide(gram, scale, dtype=np.float64)
    eigenvalues = np.linalg.eigvalsh(relative)
    if eigenvalues[0] < -tolerance * max(eigenvalues[-1], 0.0):
        return False
    return True if eigenvalues[0] >= -min(rounding, tolerance * eigenvalues[-1]) else None


def nearest_definite(gram: Array, noise: float = 0.0) -> Array:
    """Nearest positive semidefinite matrix in Frobenius norm without eigenvalues of at most ``noise``."""
    eigenvalues, vectors = np.linalg.eigh(gram.astype(np.float64))
    clipped = (vectors * np.where(eigenvalues > noise, eigenvalues, 0.0)) @ vectors.T
    return (clipped + clipped.T) / 2


def negative_share(gram: Array) -> float:
    """Return by how much of the largest eigenvalue the smallest is negative."""
    low, high = np.linalg.eigvalsh(gram.astype(np.float64))[[0, -1]]
    return float(-low / high) if high > 0 else np.inf


def tell_of_replaced(sizes: dict[int, float], n_kernels: int, name: str) -> None:
    """Warn of replaced kernels, indefinite within the tolerance of the storage."""
    worst = max(sizes, key=lambda m: sizes[m], default=0)
    size = sizes.get(worst, 0.0)
    told = 1e-10  # of the largest eigenvalue, what is negative: replaced matrices say so from here on
    if size < told:
        return
    warn(
        f"{len(sizes)} of {n_kernels} kernels are indefinite, {name}[{worst}] most: its smallest eigenvalue is "
        f"-{size:.1e} of its largest. This is within rounding of the storage; negative eigenvalues were set to zero, "
        f"so values computed from the given matrices differ. Pass psd='clip' to silence this warning.",
    )


def not_definite_message(bad: dict[int, Array], n_kernels: int, name: str) -> str:
    """Return a message with the indefinite kernels, the size of the first violation, and a remedy."""
    first, gram = next(iter(bad.items()))
    eigenvalues = np.linalg.eigvalsh(gram.astype(np.float64))
    hint = (
        " Its diagonal is zero: are these distances? A kernel is largest between like samples: exp(-distance / scale)."
    )
    distances = "" if np.diag(gram).any() else hint
    others = f" So are {len(bad) - 1} more of the {n_kernels} kernels." if len(bad) > 1 else ""
    return (
        f"{name}[{first}] is not positive semidefinite: its smallest eigenvalue is {eigenvalues[0]:.3g} and its "
        f"largest {eigenvalues[-1]:.3g}.{others}{distances} Correct the kernel, or set negative eigenvalues to zero by "
        'KernelStack(kernels, psd="clip") for an estimator, manykernels.grams.as_stack(kernels, psd="clip") for solve.'
    )

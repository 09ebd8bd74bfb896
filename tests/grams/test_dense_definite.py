"""Definiteness of kernels that others computed: proven once, at the tolerance of their storage, where it matters."""

from __future__ import annotations

import time

import numpy as np
import pytest

from manykernels import KernelStack, MKLClassifier, MKLRegressor, PrecomputedBank, solve
from manykernels.exceptions import ConvergenceWarning, NotPSDError
from manykernels.grams import DenseStack, as_stack
from manykernels.validation import gram as checks
from manykernels.validation.gram import (
    SHARE_OF_ONE_FIT,
    check_gram_array,
    examined,
    gram_tolerance,
    is_definite,
    scan_grams,
)

RNG = np.random.default_rng(0)
N = 40
FEATURES = RNG.normal(size=(30, N, 2))
KERNELS = FEATURES @ FEATURES.transpose(0, 2, 1)
Y = FEATURES[3, :, 0] + 0.5 * FEATURES[7, :, 1]
INDEFINITE = 1.5 * KERNELS[3] - 0.5 * np.diag(np.diag(KERNELS[3]))  # the kernel that y needs most, spoiled


@pytest.fixture
def lazy(monkeypatch):
    """Let every stack count as large, so that definiteness is proven where it matters."""
    monkeypatch.setattr(checks, "FULL_CHECK_FLOPS", 0.0)


@pytest.fixture
def factorized(monkeypatch):
    """Return the kernels that were looked at, as often as they were."""
    seen = []
    check = checks.is_definite
    monkeypatch.setattr(checks, "is_definite", lambda gram, tolerance: seen.append(gram) or check(gram, tolerance))
    return seen


def with_kernel(position, kernel):
    changed = KERNELS.copy()
    changed[position] = kernel
    return changed


# --- one reading for finite and symmetric ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_samples", [1, 2, 7, 40])
def test_the_scan_finds_the_largest_entry_and_any_asymmetry(dtype, n_samples):
    kernels = np.ascontiguousarray(KERNELS[:5, :n_samples, :n_samples].astype(dtype))
    largest, asymmetry = scan_grams(kernels)
    np.testing.assert_array_equal(largest, np.abs(kernels).max(axis=(1, 2)))
    assert (asymmetry <= 1e-12 * n_samples * largest).all()
    rng = np.random.default_rng(1)
    for _ in range(20 if n_samples > 1 else 0):
        m, i, j = rng.integers(5), *rng.choice(n_samples, size=2, replace=False)
        changed = kernels.copy()
        changed[m, i, j] += dtype(0.01)
        difference = abs(float(changed[m, i, j]) - float(changed[m, j, i]))
        screen = scan_grams(changed)[1]
        assert 0.999 * difference <= screen[m] <= 2.001 * difference


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0, 0), (4, 39, 38), (29, 39, 39)])
def test_the_scan_finds_what_is_not_finite(value, place):
    kernels = KERNELS.copy()
    kernels[place] = value
    largest, _ = scan_grams(kernels)
    assert np.flatnonzero(~np.isfinite(largest)).tolist() == [place[0]]
    with pytest.raises(
        ValueError, match=rf"kernels\[{place[0]}\] contains 1 NaN or infinite value.*index \({place[1]},"
    ):
        check_gram_array(kernels)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_the_scan_does_not_mind_the_size_of_entries(scale):
    kernels = KERNELS / np.abs(KERNELS).max() * scale
    assert check_gram_array(kernels) is kernels
    kernels[2, 0, 1] *= 1.001
    with pytest.raises(NotPSDError, match=r"kernels\[2\] is not symmetric: entry \[0, 1\]"):
        check_gram_array(kernels)


def test_checks_of_many_kernels_cost_little_more_than_reading_them():
    kernels = np.broadcast_to(np.eye(100), (2000, 100, 100)).copy()
    check_gram_array(kernels)

    def seconds(action):
        times = []
        for _ in range(5):
            start = time.process_time()
            action()
            times.append(time.process_time() - start)
        return min(times)

    # A Cholesky factorization of each takes fifty times as long as finding the largest entry.
    assert seconds(lambda: check_gram_array(kernels)) <= 8 * seconds(lambda: np.abs(kernels).max())


# --- proven where it matters ----------------------------------------------------------------------------------------


def test_small_stacks_are_proven_at_once_and_large_ones_are_not():
    assert examined(KERNELS)[1] is None
    kernels = np.broadcast_to(np.eye(150), (1000, 150, 150))
    assert examined(kernels)[1].mask.all()
    assert examined(kernels[:200], "raise")[1] is None
    assert examined(kernels[:200])[1] is None
    assert examined(kernels[:200], share=SHARE_OF_ONE_FIT)[1].mask.all()


@pytest.mark.parametrize("solver", ["auto", "interior_point", "simplemkl", "spicymkl", "silp"])
@pytest.mark.parametrize("kernel", [INDEFINITE, -KERNELS[3]], ids=["indefinite", "negative"])
def test_no_solver_returns_a_model_of_an_indefinite_kernel(lazy, solver, kernel):
    kernels = with_kernel(3, kernel)
    penalty = "simplex" if solver in ("simplemkl", "silp") else "l1"
    with pytest.raises(NotPSDError, match=r"kernels\[3\] is not positive semidefinite: its smallest eigenvalue is -"):
        solve(kernels, Y, loss="squared", penalty=penalty, strength=1.0, solver=solver)


def test_a_negative_quadratic_form_of_an_inactive_kernel_is_noticed(lazy):
    hollow = np.full((N, N), -1.0) + 2.0 * np.eye(N)  # one eigenvalue of 2 - N, the others 2
    stack = as_stack(with_kernel(20, hollow))
    stack.quad(FEATURES[3, :, 0] - FEATURES[3, :, 0].mean())
    with pytest.raises(NotPSDError, match=r"kernels\[20\].*smallest eigenvalue is -38"):
        stack.quad(np.ones(N))


@pytest.mark.parametrize("enter", ["take", "view", "triangles", "prove_definite"])
def test_kernels_are_proven_when_they_enter(lazy, factorized, enter):
    stack = as_stack(with_kernel(3, INDEFINITE))
    getattr(stack, enter)([0, 1])
    getattr(stack, enter)([1, 2])
    assert len(factorized) == 3
    with pytest.raises(NotPSDError, match=r"kernels\[3\]"):
        getattr(stack, enter)([3])


def test_a_fit_looks_at_the_kernels_of_its_model_only(lazy, factorized):
    model = MKLRegressor("precomputed", alpha=0.3).fit(np.tile(KERNELS, (10, 1, 1)), Y)
    assert 0 < model.kernel_weights_.astype(bool).sum() == len(factorized)


@pytest.mark.parametrize("bank", ["precomputed", PrecomputedBank(), PrecomputedBank("unit_diagonal", center=True)])
def test_estimators_refuse_what_a_check_of_all_refuses(lazy, bank):
    kernels = with_kernel(3, INDEFINITE)
    with pytest.raises(NotPSDError):
        KernelStack(kernels, psd="check")
    with pytest.raises(NotPSDError, match=r"kernels\[3\]"):
        MKLRegressor(bank, alpha=1e-3).fit(KernelStack(kernels), Y)


def test_views_of_a_stack_are_still_to_be_proven(lazy):
    stack = KernelStack(with_kernel(3, INDEFINITE))
    with pytest.raises(NotPSDError, match=r"kernels\[3\]"):
        MKLRegressor("precomputed", alpha=1e-3).fit(stack[:30], Y[:30])
    with pytest.raises(NotPSDError, match=r"kernels\[3\]"):
        as_stack(with_kernel(3, INDEFINITE)).restrict(np.arange(30)).prove_definite()


def test_late_proofs_change_no_result(lazy, monkeypatch):
    model = MKLRegressor("precomputed", alpha=0.1, tol=1e-8)
    late = model.fit(KERNELS, Y).predict(KERNELS)
    monkeypatch.undo()
    np.testing.assert_array_equal(late, model.fit(KERNELS, Y).predict(KERNELS))


# --- within the tolerance -------------------------------------------------------------------------------------------


def test_three_sizes_of_negative_eigenvalues():
    for smallest, verdict in [(1.0, True), (0.0, True), (-1e-17, True), (-9e-9, None), (-2e-8, False)]:
        assert is_definite(np.diag([1.0, 1.0, smallest]), 1e-8) is verdict
    assert is_definite(np.diag([1.0, 1.0, -1e-7]).astype(np.float32), 1e-5) is True
    assert is_definite(np.diag([1.0, 1.0, -5e-6]).astype(np.float32), 1e-5) is None
    assert is_definite(np.diag([1.0, 1.0, -5e-5]).astype(np.float32), 1e-5) is False


def test_what_is_negative_within_the_tolerance_is_set_to_zero_in_a_copy():
    kernels = np.stack([np.eye(3), np.diag([1.0, 1.0, -9e-9])])
    before = kernels.copy()
    with pytest.warns(UserWarning, match=r"1 of 2 kernels are indefinite, kernels\[1\] most.* -9.0e-09 of its largest"):
        stack = as_stack(kernels)
    np.testing.assert_array_equal(kernels, before)
    np.testing.assert_array_equal(stack.block()[1], np.diag([1.0, 1.0, 0.0]))
    assert stack.quad([0.0, 0.0, 1.0]).tolist() == [1.0, 0.0]


@pytest.mark.filterwarnings("ignore:1 of 2 kernels are indefinite")
def test_the_same_happens_to_kernels_that_are_proven_late(lazy):
    basis = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    spoiled = (basis * [1.0, 1.0, -9e-9]) @ basis.T
    kernels = np.stack([np.eye(3), (spoiled + spoiled.T) / 2])
    before = kernels.copy()
    stack = as_stack(kernels)
    assert stack.prove_definite() is True
    assert stack.prove_definite() is False
    np.testing.assert_array_equal(kernels, before)
    definite = stack.block()
    np.testing.assert_allclose(np.linalg.eigvalsh(definite[1]), [0.0, 1.0, 1.0], atol=1e-15)
    y = np.array([1.0, 1.0, -2.0])
    solution = solve(kernels, y, loss="squared", penalty="ridge", strength=0.1)
    whole = solve(definite, y, loss="squared", penalty="ridge", strength=0.1)
    shared = as_stack(kernels)
    again = [solve(shared, y, loss="squared", penalty="ridge", strength=0.1) for _ in range(2)]
    assert {found.certificate.primal for found in again} == {solution.certificate.primal}
    assert solution.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-12)


# --- once, at the tolerance of the storage --------------------------------------------------------------------------


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(40))
def test_float32_kernels_are_not_refused_in_mid_fit(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 2))
    kernels = np.stack([np.outer(column, column) for column in X.T]).astype(np.float32)
    MKLClassifier("precomputed", penalty="lp_ball").fit(kernels, X[:, 0] + 0.3 * rng.normal(size=30) > 0)


@pytest.mark.filterwarnings("ignore:.* kernels are indefinite")
@pytest.mark.parametrize("bank", [PrecomputedBank(), PrecomputedBank("unit_diagonal", center=True)])
def test_normalized_float32_kernels_keep_the_tolerance_of_float32(lazy, bank):
    model = MKLRegressor(bank, alpha=1e-3).fit(KERNELS.astype(np.float32), Y)
    assert model.dual_gap_ <= 1e-4


def test_stacks_that_the_library_builds_are_trusted(factorized):
    DenseStack(KERNELS).prove_definite()
    assert not factorized


# --- what is told of kernels that were replaced ---------------------------------------------------------------------


def slightly_indefinite(size: float) -> np.ndarray:
    """Return a kernel of low rank with one negative eigenvalue of this share of the largest."""
    values, vectors = np.linalg.eigh(KERNELS[3])
    spoiled = KERNELS[3] - size * values[-1] * np.outer(vectors[:, 0], vectors[:, 0])
    return (spoiled + spoiled.T) / 2


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.filterwarnings("ignore:1 of 30 kernels are indefinite")
def test_replaced_kernels_are_told_with_their_size(large, request):
    if large:
        request.getfixturevalue("lazy")
    kernels = with_kernel(3, slightly_indefinite(3e-9))
    found = solve(kernels, Y, loss="squared", penalty="l1", alpha="0.1*max")
    assert list(found.replaced_kernels) == [3]
    assert found.replaced_kernels[3] == pytest.approx(3e-9, rel=1e-4)
    assert "stands for 1 of 30 kernels, negative by up to 3.0e-09 of the largest eigenvalue" in found.message
    names = [f"k{m}" for m in range(30)]
    model = MKLRegressor(PrecomputedBank(), alpha=0.1).fit(KernelStack(kernels, names), Y)
    assert model.replaced_kernels_ == {"k3": pytest.approx(3e-9, rel=1e-4)}
    assert model.solution_.message.count("stands for") == 1


def test_nothing_is_told_where_nothing_was_replaced():
    found = solve(KERNELS, Y, loss="squared", penalty="l1", alpha="0.1*max")
    assert found.replaced_kernels == {}
    assert "stands for" not in found.message


def test_rounded_parts_are_proven_by_the_kernels_as_they_came(lazy, factorized):
    """Rounding alone would make kernels of low rank indefinite."""
    stack, samples = as_stack(with_kernel(5, INDEFINITE)), np.arange(0, N, 2)
    part = stack.part(samples, np.float32)
    assert part.nbytes == 4 * len(KERNELS) * 20 * 21 // 2
    np.testing.assert_allclose(part.block(), stack.block(samples, samples), rtol=1e-6)
    assert not part.prove_definite([3])
    np.testing.assert_array_equal(factorized[-1], KERNELS[3][np.ix_(samples, samples)])
    with pytest.raises(NotPSDError, match=r"kernels\[5\] is not positive semidefinite"):
        part.prove_definite([5])


@pytest.mark.parametrize("unit", [1e-35, 1e35])
def test_parts_that_single_precision_does_not_hold_stay_as_they_are(unit):
    part = DenseStack(unit * KERNELS).part(np.arange(0, N, 2), np.float32)
    assert part.dtype == np.float64
    np.testing.assert_array_equal(part.block(), unit * KERNELS[:, ::2, ::2])


@pytest.mark.parametrize("dtype", [None, np.float32])
def test_parts_that_are_not_copied_say_what_their_copies_do(dtype):
    samples, rng = np.arange(0, N, 2), np.random.default_rng(0)
    part = DenseStack(KERNELS).part(samples, dtype, copied=False)
    copy, vector = part.copied(), rng.normal(size=len(samples))
    assert part.evaluates
    assert not part.in_memory
    assert 4 * part.n_rounded_entries == copy.nbytes
    weights = rng.uniform(size=len(KERNELS))
    np.testing.assert_allclose(part.quad(vector), copy.quad(vector), rtol=1e-5)
    np.testing.assert_allclose(part.combine(weights), copy.combine(weights), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(part.apply_each(vector), copy.apply_each(vector), rtol=1e-5, atol=1e-4)


def test_kernels_are_proven_once_for_all_copies_of_a_part(lazy, factorized):
    part = as_stack(KERNELS).part(np.arange(0, N, 2), np.float32, copied=False)
    for _ in range(3):
        part.copied().prove_definite([3])
    assert len(factorized) == 1
    part.copied().prove_definite([3, 7])
    assert len(factorized) == 2


@pytest.mark.parametrize("seed", range(3))
def test_many_targets_converge_on_float32_kernels_of_low_rank_under_weak_penalties(seed):
    """Rounding to float32 leaves eigenvalues of 1e-8 of the largest, which such weights multiply by 1e8."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(4, 60, 3))
    Y = factors[0] @ rng.normal(size=(3, 5)) + factors[2] @ rng.normal(size=(3, 5)) + rng.normal(size=(60, 5))
    single = (factors @ factors.transpose(0, 2, 1)).astype(np.float32)
    model = MKLRegressor("precomputed", penalty="ridge", alpha=1e-9).fit(single, Y)
    assert model.dual_gap_ <= 1e-4
    assert len(model.replaced_kernels_) == 4


def test_the_target_of_the_largest_gap_is_named():
    rng = np.random.default_rng(0)
    Y = np.column_stack([rng.normal(size=N), KERNELS[0] @ rng.normal(size=N)])
    with pytest.warns(ConvergenceWarning, match=r"^Output 1: Solver 'working_set' stopped \(max_iter\)"):
        MKLRegressor("precomputed", alpha=1e-6, tol=1e-9, resources={"max_iter": 1}).fit(KERNELS, Y)


def test_eigenvalues_within_the_rounding_of_float32_are_left_in_peace():
    """Also where kernels that came in float32 are read as float64."""
    factor = np.random.default_rng(0).normal(size=(80, 4))
    rounded = (factor @ factor.T).astype(np.float32)
    assert np.linalg.eigvalsh(rounded.astype(np.float64))[0] < 0
    assert is_definite(rounded, gram_tolerance(np.float32)) is True
    assert is_definite(rounded.astype(np.float64), gram_tolerance(np.float32)) is True

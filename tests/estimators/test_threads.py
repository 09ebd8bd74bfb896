"""Threads: as many as were asked for, in fits and predictions, and afterwards as many as before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from manykernels import KernelAligner, MKLRegressor, solve
from manykernels.grams import DenseStack
from manykernels.grams.expansion import Expansion
from manykernels.threads import blas_controller, blas_limit, blas_threads

X = np.random.default_rng(0).uniform(-2.0, 2.0, size=(40, 2))
Y = np.sin(2.0 * X[:, 0])


def threads():
    """Numbers of threads of the BLAS libraries that can have several: another package may bring one that cannot."""
    return {pool["num_threads"] for pool in blas_controller().info() if pool["threading_layer"] != "disabled"}


@pytest.fixture
def two_threads():
    """Let BLAS have two threads, on a machine with one core as well."""
    with blas_controller().limit(limits=2):
        yield
        assert threads() == {2}


def test_the_smallest_limit_counts_and_the_last_to_leave_restores(two_threads):
    first, second = blas_limit(1), blas_limit(2)
    first.__enter__()
    second.__enter__()
    assert threads() == {1}
    first.__exit__(None, None, None)
    assert threads() == {2}
    second.__exit__(None, None, None)
    with blas_threads(10), blas_limit(2):
        assert threads() == {1}


def test_limits_of_several_threads_leave_what_was_there(two_threads):
    barrier = Barrier(4)

    def work(_):
        for _ in range(20):
            barrier.wait()
            with blas_threads(10):
                assert threads() == {1}

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_fits_in_several_threads_leave_what_was_there(two_threads):
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda seed: MKLRegressor(alpha=0.05).fit(X, Y + 0.0 * seed), range(8)))
    assert len({model.dual_coef_.tobytes() for model in models}) == 1


def test_an_error_takes_the_limit_back(two_threads):
    with pytest.raises(ZeroDivisionError), blas_limit(1):
        _ = 1 / 0


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 1), (1, 1)])
def test_prediction_uses_the_threads_that_were_asked_for(two_threads, monkeypatch, n_jobs, expected):
    model, seen = MKLRegressor(alpha=0.05, resources={"n_jobs": n_jobs}).fit(X, Y), set()
    scores, contributions = Expansion.scores, Expansion.contributions
    monkeypatch.setattr(Expansion, "scores", lambda self, rows: (seen.update(threads()), scores(self, rows))[1])
    monkeypatch.setattr(
        Expansion, "contributions", lambda self, rows: (seen.update(threads()), contributions(self, rows))[1]
    )
    model.predict(X)
    model.decompose(X)
    assert seen == {expected}


def test_the_aligner_leaves_what_was_there(two_threads):
    assert KernelAligner().fit(X, Y).transform(X).shape == (40, 40)


def test_runs_that_share_a_stack_count_what_each_of_them_reads():
    factors = np.random.default_rng(1).normal(size=(30, 60, 3))
    stack = DenseStack(factors @ factors.transpose(0, 2, 1))
    target = factors[3, :, 0]

    def run(_):
        return solve(stack, target, loss="squared", penalty="l1", strength=2.0).passes

    alone = run(None)
    assert stack.counters.passes == pytest.approx(alone)
    assert alone > 0
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(8))) == pytest.approx([alone] * 8)
    assert stack.counters.passes == pytest.approx(9 * alone)

"""Ctrl-C stops all that would follow; a stop that a callback asks for ends one run."""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from manykernels import Gaussian, GaussianMKL, HierarchicalMKL, KernelBank, NonlinearMKL, PolynomialMKL
from manykernels.estimators import MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from manykernels.estimators.selection.path import regularization_path
from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import PackedStack, as_stack
from manykernels.grams.factored.composite import CompositeStack
from manykernels.inspection import stability_selection
from manykernels.solvers import ForwardBackward, SpicyMKL, WorkingSet

ALPHAS = (0.1, 0.03, 0.01, 0.003)
SOLVERS = [WorkingSet, ForwardBackward, SpicyMKL]


class CtrlC:
    """A callback that presses Ctrl-C in the first iteration of one of the runs, counted from 1."""

    def __init__(self, run: int, press: Callable[[], None]) -> None:
        self.run, self.press, self.runs = run, press, 0

    def __call__(self, record: Any) -> None:
        self.runs += record.iteration == 0
        if self.runs == self.run and record.iteration == 1:
            self.press()

    def __deepcopy__(self, memo: dict[int, Any]) -> CtrlC:
        return self  # clones of an estimator count together


def raised() -> None:
    raise KeyboardInterrupt


def signaled() -> None:
    signal.raise_signal(signal.SIGINT)


PRESSES = [raised, signaled]


class Scores:
    """A scorer that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, model: Any, X: Any, y: Any) -> float:
        self.calls += 1
        return float(-np.mean((model.predict(X) - y) ** 2))


def bank() -> KernelBank:
    return KernelBank([(f"x{j}", Gaussian(1.0), [j]) for j in range(3)], normalize=None)


def regressor(scoring: Any, solver: Any, **parameters: Any) -> MKLRegressorCV:
    return MKLRegressorCV(bank(), alphas=ALPHAS, cv=3, scoring=scoring, solver=solver, **parameters)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("press", PRESSES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_path_keeps_its_complete_points(data: Any, solver: Any, press: Any) -> None:
    stop = CtrlC(3, press)
    counted: list[tuple[int, int]] = []
    with pytest.warns(ConvergenceWarning, match="interrupted: the solutions at the first 2 of 4 strengths") as caught:
        path = regularization_path(
            as_stack(data.grams), data.y, alphas=ALPHAS, solver=solver(tol=1e-7, callback=stop),
            progress=lambda done, total: counted.append((done, total)),
        )  # fmt: skip
    whole = regularization_path(as_stack(data.grams), data.y, alphas=ALPHAS, solver=solver(tol=1e-7))
    assert (len(path), path.weights.shape, path.norms.shape, stop.runs) == (2, (2, 4), (2, 4), 3)
    assert counted == [(1, 4), (2, 4)]
    np.testing.assert_array_equal(path.alphas, ALPHAS[:2])
    np.testing.assert_array_equal(path.weights, whole.weights[:2])
    assert caught[0].filename == __file__


def test_a_path_without_a_complete_point_has_the_model_without_kernels(data: Any) -> None:
    stop = CtrlC(1, raised)
    with pytest.warns(ConvergenceWarning, match=r"without kernels at the first strength|stopped \(interrupted\)"):
        path = regularization_path(as_stack(data.grams), data.y, alphas=ALPHAS, solver=WorkingSet(callback=stop))
    assert stop.runs == 1
    assert (len(path), path.weights.any()) == (1, False)
    np.testing.assert_array_equal(path.alphas, ALPHAS[:1])
    certificate = path.solutions[0].certificate
    assert certificate.dual < certificate.primal
    assert str(path.solutions[0].status) == "interrupted"


def test_an_interrupt_between_two_runs_keeps_the_points_too(data: Any) -> None:
    with pytest.warns(ConvergenceWarning, match="first 1 of 4 strengths"):
        path = regularization_path(as_stack(data.grams), data.y, alphas=ALPHAS, progress=lambda *_: raised())
    assert len(path) == 1


def test_an_interrupt_of_the_second_attempt_is_one(data: Any) -> None:
    """A run that does not converge from the solution before is started afresh, and Ctrl-C may come then."""
    stop = CtrlC(3, raised)
    solver = ForwardBackward(tol=1e-12, max_iter=1, callback=stop)
    early = pytest.warns(ConvergenceWarning, match="first 1 of 2 strengths")
    with pytest.warns(ConvergenceWarning, match=r"stopped \(max_iter\)"), early:
        path = regularization_path(as_stack(data.grams), data.y, alphas=(1e-3, 3e-4), solver=solver)
    assert (len(path), stop.runs) == (1, 3)


def test_a_stop_that_the_callback_asks_for_ends_one_run(data: Any) -> None:
    with pytest.warns(ConvergenceWarning, match="4 of the 4 problems of the path ended like this"):
        path = regularization_path(
            as_stack(data.grams), data.y, alphas=ALPHAS, solver=WorkingSet(tol=1e-12, callback=lambda _: True)
        )
    assert path.summary()["status"].tolist() == ["stopped_by_callback"] * 4


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore:The best strength:UserWarning")
@pytest.mark.parametrize("press", PRESSES)
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("solver", SOLVERS)
def test_no_half_solved_model_of_a_fold_is_scored(data: Any, solver: Any, n_jobs: int | None, press: Any) -> None:
    """Ctrl-C in the second fold: the first one chooses, and the last fit follows."""
    stop, scores = CtrlC(len(ALPHAS) + 2, press), Scores()
    model = regressor(scores, solver(tol=1e-9, callback=stop), resources={"n_jobs": n_jobs})
    with pytest.warns(ConvergenceWarning, match=r"interrupted.*best of 4 of 4 strengths in 1 folds"):
        model.fit(data.X, data.y)
    assert stop.runs == len(ALPHAS) + 3
    assert scores.calls == len(ALPHAS) + 1
    assert model.n_folds_ == 1
    assert str(model.solution_.status) == "converged"


@pytest.mark.filterwarnings("ignore:The best strength:UserWarning")
def test_an_interrupt_of_the_first_fold_keeps_what_it_scored(data: Any) -> None:
    stop, scores = CtrlC(3, raised), Scores()
    model = regressor(scores, WorkingSet(tol=1e-9, callback=stop))
    with pytest.warns(ConvergenceWarning, match=r"interrupted.*best of 2 of 4 strengths in 1 folds"):
        model.fit(data.X, data.y)
    assert np.isfinite(model.cv_frame()["mean_score"]).tolist() == [True, True, False, False]
    assert model.alpha_ in ALPHAS[:2]


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("after", [0, 3])
def test_a_search_keeps_the_candidates_that_all_folds_scored(data: Any, n_jobs: int | None, after: int) -> None:
    calls = [0]

    def scorer(model: Any, X: Any, y: Any) -> float:
        calls[0] += 1
        if calls[0] == 2 * after + 2:
            raise KeyboardInterrupt
        return float(-np.mean((model.predict(X) - y) ** 2))

    model = MKLRegressorCV(bank(), cv=2, scoring=scorer, resources={"n_jobs": n_jobs})
    told = r"best of 3 candidates" if after else "nothing was scored, and the strength is the default"
    with pytest.warns(ConvergenceWarning, match=rf"interrupted.*{told}"):
        model.fit(data.X, data.y)
    assert np.isfinite(model.cv_frame()["mean_score"]).sum() == after
    assert str(model.solution_.status) == "converged"
    assert model.score(data.X, data.y) > 0


def test_a_search_that_scored_empty_models_alone_does_not_choose_one(data: Any) -> None:
    calls = [0]

    def scorer(model: Any, X: Any, y: Any) -> float:
        calls[0] += 1
        if calls[0] == 4:  # the second strength in the second fold: at the first of a walk nothing is left
            raise KeyboardInterrupt
        return float(-np.mean((model.predict(X) - y) ** 2))

    model = MKLRegressorCV(bank(), cv=2, scoring=scorer, resources={"representation": "factored"})
    with pytest.warns(ConvergenceWarning, match="interrupted.*nothing was scored, and the strength is the default"):
        model.fit(data.X, data.y)
    plain = MKLRegressor(bank(), resources={"representation": "factored"}).fit(data.X, data.y)
    assert model.alpha_ == pytest.approx(plain.alpha_, rel=1e-12)
    assert model.kernel_weights_.any()


def test_an_interrupt_of_one_class_stops_the_folds(data: Any) -> None:
    stop = CtrlC(2, signaled)
    species = np.digitize(data.y, np.quantile(data.y, [1 / 3, 2 / 3]))
    model = MKLClassifierCV(
        bank(), alphas=(1e-3, 3e-4), cv=3, solver=WorkingSet(callback=stop), resources={"n_jobs": 2}
    )
    with pytest.warns(ConvergenceWarning, match="interrupted.*nothing was scored, and the strength is the default"):
        model.fit(data.X, species)
    assert stop.runs == 2 + 3  # one of each class, on all rows
    assert {str(found.status) for found in model.solution_} == {"converged"}


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore:The best strength:UserWarning")
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("press", PRESSES)
def test_the_last_fit_keeps_the_best_model_so_far(data: Any, press: Any, n_jobs: int | None) -> None:
    runs = 3 * (len(ALPHAS) + 1) + 1  # the choice once more in every fold, for what held-out rows lose
    stop, scores = CtrlC(runs, press), Scores()
    model = regressor(scores, WorkingSet(tol=1e-9, callback=stop), resources={"n_jobs": n_jobs})
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(data.X, data.y)
    assert (stop.runs, scores.calls, str(model.solution_.status)) == (runs, 3 * len(ALPHAS), "interrupted")
    assert model.kernel_weights_.any()
    assert model.predict(data.X).shape == (60,)


@pytest.mark.filterwarnings("ignore:The best strength:UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_folds_go_on_when_the_callback_asks_to_stop(data: Any) -> None:
    scores = Scores()
    regressor(scores, WorkingSet(tol=1e-9, callback=lambda record: record.iteration > 0)).fit(data.X, data.y)
    assert scores.calls == 3 * len(ALPHAS)


@pytest.mark.parametrize("representation", ["gram", "factored"])
@pytest.mark.parametrize("loss", ["squared", "quantile"])
def test_before_the_first_certificate_the_model_without_kernels_is_kept(
    data: Any, monkeypatch: pytest.MonkeyPatch, representation: str, loss: str
) -> None:
    """Ctrl-C in the first pass over kernels: the constant is a model, and its gap says what it is worth."""
    calls = [0]

    def once(stack: Any) -> Any:
        read = getattr(stack, name)

        def interrupted(self: Any, *args: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] == 1:
                raise KeyboardInterrupt
            return read(self, *args, **options)

        return interrupted

    name, kind = ("quad", PackedStack) if representation == "gram" else ("quad_bounds", CompositeStack)
    monkeypatch.setattr(kind, name, once(kind))
    model = MKLRegressor(bank(), loss=loss, alpha=0.01, resources={"representation": representation})
    with pytest.warns(ConvergenceWarning, match=r"interrupted\) after 0 iterations.*best model so far"):
        model.fit(data.X, data.y)
    # On factors the constant's own pass is among those that tell noise, and is not made again.
    assert calls[0] >= (2 if representation == "gram" else 1)
    assert not model.kernel_weights_.any()
    assert np.ptp(model.predict(data.X)) == 0
    certificate = model.solution_.certificate
    assert 0 <= certificate.dual < certificate.primal
    assert model.dual_gap_ == pytest.approx((certificate.primal - certificate.dual) / certificate.primal)


@contextmanager
def pressed_within(place: str, at: int) -> Iterator[list[int]]:
    """Press Ctrl-C at a call that the library makes inside a function, ``"module.name"``; yields what was counted."""
    counted, outer = [0], [0]
    module, name = place.split(".")

    def profile(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if "manykernels" not in code.co_filename:
            return
        if code.co_name == name and code.co_filename.endswith(f"{module}.py"):
            outer[0] += {"call": 1, "return": -1}.get(event, 0)
        elif (
            event == "call" and outer[0] and not code.co_flags & inspect.CO_GENERATOR
        ):  # those that are closed swallow it
            counted[0] += 1
            if counted[0] == at:
                sys.setprofile(None)
                raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield counted
    finally:
        sys.setprofile(before)
    assert counted[0], f"nothing is called within {place}: has it moved?"


QUICK = {"max_iter": 3}
SEARCHES: dict[str, Callable[[], Any]] = {
    "polynomial": lambda: PolynomialMKL(n_steps=6, resources=QUICK),
    "polynomial with folds": lambda: PolynomialMKL(n_steps=6, p=1.0, cv=2, adaptive=True, resources=QUICK),
    "gaussian": lambda: GaussianMKL(resources=QUICK),
    "sampling": lambda: GaussianMKL(search="sampling", resources=QUICK),
    "one width a feature": lambda: GaussianMKL(per_feature=True, resources=QUICK),
    "two stages": lambda: GaussianMKL(stages=2, resources=QUICK),
    "hierarchical": lambda: HierarchicalMKL(resources=QUICK),
    "nonlinear": lambda: NonlinearMKL(resources=QUICK),
    "kernels as factors": lambda: MKLRegressor(bank(), alpha=0.01, resources={"representation": "factored"}),
    "kernels as matrices": lambda: MKLRegressor(bank(), alpha=0.01),
}


@pytest.mark.sampled(25)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("kind", SEARCHES)
def test_ctrl_c_anywhere_in_a_search_leaves_a_certified_model(data: Any, kind: str, share: float) -> None:
    """From the first call within the loop of a search on: before its first model that is the one without kernels."""
    X, y = data.X[:30], data.y[:30]
    with pressed_within("run.follow", -1) as calls:
        SEARCHES[kind]().fit(X, y)
    with pressed_within("run.follow", 1 + int(share * (calls[0] - 1))):
        model = SEARCHES[kind]().fit(X, y)
    assert str(model.solution_.status) == "interrupted"
    assert np.isfinite(model.predict(X)).all()
    certificate = model.solution_.certificate
    assert certificate.dual <= certificate.primal * (1 + 1e-12)
    assert model.dual_gap_ == pytest.approx((certificate.primal - certificate.dual) / certificate.primal, abs=1e-12)
    if share == 0.0 and kind != "two stages":  # whose second stage learns on what the first one left
        assert np.ptp(model.predict(X)) == 0
        assert certificate.primal == pytest.approx(np.sum((y - y.mean()) ** 2) / 2, rel=1e-9)


def test_ctrl_c_while_folds_choose_a_strength_leaves_the_model_without_kernels(data: Any) -> None:
    with (
        pressed_within("lasso_path.tune_strengths", 40),
        pytest.warns(ConvergenceWarning, match=r"stopped \(interrupted\)"),
    ):
        model = SEARCHES["polynomial with folds"]().fit(data.X, data.y)
    assert not model.kernel_weights_.any()
    assert model.dual_gap_ == pytest.approx(1.0)


def test_ctrl_c_while_bounds_are_proven_keeps_the_kernels(data: Any) -> None:
    with (
        pressed_within("first_stage.alignment_bound", 5),
        pytest.warns(ConvergenceWarning, match=r"first stage stopped \(interr"),
    ):
        model = GaussianMKL(stages=2).fit(data.X, data.y)
    assert model.kernel_weights_.any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["gaussian", "hierarchical", "nonlinear"])
def test_targets_that_follow_ctrl_c_get_models_without_kernels(data: Any, kind: str) -> None:
    Y = np.column_stack([data.y, -data.y, data.y**2])[:30]
    with pressed_within("run.follow", 5):
        model = SEARCHES[kind]().fit(data.X[:30], Y)
    assert [str(found.status) for found in model.solution_] == ["interrupted"] * 3
    assert model.predict(data.X[:30]).shape == (30, 3)


@pytest.mark.parametrize("representation", ["gram", "factored"])
def test_classes_that_follow_ctrl_c_get_models_without_kernels(data: Any, representation: str) -> None:
    species = np.digitize(data.y, np.quantile(data.y, [1 / 3, 2 / 3]))
    model = MKLClassifier(bank(), alpha=0.01, resources={"representation": representation})
    with pressed_within("run.follow", 3), pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(data.X, species)
    assert [str(found.status) for found in model.solution_] == ["interrupted"] * 3
    assert not model.kernel_weights_.any()


def test_a_selection_keeps_its_complete_pairs_of_halves(data: Any) -> None:
    model, halves = MKLRegressor(bank()), {"n_pairs": 3, "random_state": 0, "expected_false": 2.0}
    with pressed_within("selection.stability_selection", -1) as calls:
        whole = stability_selection(model, data.X, data.y, **halves)
    with (
        pressed_within("selection.stability_selection", int(0.7 * calls[0])),
        pytest.warns(ConvergenceWarning, match=r"over [24] of 6 halves"),
    ):
        found = stability_selection(model, data.X, data.y, **halves)
    assert found.n_halves in (2, 4)
    assert found.error_bound == whole.error_bound
    np.testing.assert_allclose(found.frequencies * found.n_halves, np.round(found.frequencies * found.n_halves))
    with pressed_within("selection._first_units", 1), pytest.raises(KeyboardInterrupt):
        stability_selection(model, data.X, data.y, **halves)

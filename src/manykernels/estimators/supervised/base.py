"""Shared parts of classifier and regressor: from checked targets to a fitted, certified model."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.parameters import TakesGroups, check_parameters, shape_of
from manykernels.estimators.permutations import PermutedTargets, noise_seed
from manykernels.estimators.strength import (
    AUTO,
    IN_UNIT_SPREAD,
    SIGNIFICANT,
    NoiseLevel,
    RelativeStrength,
    alpha_from_strength,
    attributes_of_noise,
    relative_strength,
    set_error_sizes,
    set_strength,
    strength_from_alpha,
)
from manykernels.estimators.supervised.deferred import MOST_BYTES, Answer, forget, is_put_off, put_off, set_all, settle
from manykernels.estimators.supervised.descent import weaken
from manykernels.estimators.supervised.explanation import Explanations, NotebookCard
from manykernels.estimators.supervised.importance import keep_importance
from manykernels.estimators.supervised.posterior import keep_bands
from manykernels.estimators.supervised.problems import (
    Fit,
    SolverChoice,
    build_problems,
    constant_targets,
    end_of,
    expand_solutions,
    solve_problems,
    time_left,
    why_constant,
    why_none,
    why_some,
)
from manykernels.estimators.supervised.samples import (
    Rows,
    Samples,
    check_alignment,
    check_lengths,
    check_rows,
    kernel_factors,
    names_of_targets,
    sample_weights,
)
from manykernels.exceptions import ConvergenceWarning, InvalidInputError, memory_errors_of, warn
from manykernels.grams.expansion import Expansion
from manykernels.grams.plan import FACTORED, GRAM, SINGLE_PRECISION_TOL, MemoryPlan
from manykernels.grams.seconds import ProblemForm
from manykernels.grams.training import (
    DEFAULT_BANK,
    LAZY,
    Training,
    is_precomputed,
    keeps_shapes,
    open_training,
    plan_for,
    reads_sparse,
)
from manykernels.kernels import FittedBank, KernelBank
from manykernels.kernels.pairs.data import as_pairs
from manykernels.objective.certificate import proved_inactive
from manykernels.objective.losses import LOSSES, Loss, get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer, get_regularizer, parameters_of
from manykernels.solvers import Solution, Status
from manykernels.solvers.factored.model import FactorFunctions
from manykernels.solvers.gram.many_targets import batches, keep_empty_norms, many_targets
from manykernels.solvers.registry import refusal_of_factors
from manykernels.threads import blas_limit, n_threads
from manykernels.validation.arrays import Array, TableLike
from manykernels.validation.parameters import SaysWhichParameter, drop_attributes

NOISE = "noise"
OF_NOISE = ("noise_p_value_", "above_noise_", "_beyond_noise", "_noise_p_value")  # what is told by all orders


def _is_given_kernels(estimator: "BaseMKL") -> bool:
    if estimator._finds_kernels:
        name = type(estimator).__name__
        raise AttributeError(f"{name} learns its kernels during the fit, so no plan is available.")
    return True


class BaseMKL(SaysWhichParameter, NotebookCard, Explanations, TakesGroups):
    """Base of the estimators; not meant to be used by itself."""

    fitted_extras: ClassVar[tuple[str, ...]] = ()  # attributes of the fitted estimator that only this class has

    _takes_sparse: ClassVar[bool] = False  # whether X may be a sparse matrix
    _finds_kernels: ClassVar[bool] = False  # while it learns; else they are given
    _task: str
    _other: str
    _target_word: Any
    _single: bool
    _n_samples: int
    _n_targets: int
    _loss: Loss
    noise_p_value_ = Answer(NOISE)
    above_noise_ = Answer(NOISE)
    _beyond_noise = Answer(NOISE)
    _noise_p_value = Answer(NOISE)
    alpha_: Any  # model files hold what is annotated here to its type: a number, an array, None of a search
    l1_ratio_: Any
    target_names_: Array

    @property
    def _takes_kernels(self) -> bool:
        """Whether X holds kernels, not features."""
        return is_precomputed(getattr(self, "kernels", None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._takes_kernels
        if hasattr(self, "kernels") and isinstance(bank := self.kernels or DEFAULT_BANK, KernelBank):
            tags.input_tags.categorical = tags.input_tags.string = bank.reads_categories
            tags.input_tags.allow_nan = bank.missing != "error"
        tags.input_tags.sparse = self._takes_sparse and reads_sparse(self.kernels, self._resources.representation)
        return tags

    # --- fitting ----------------------------------------------------------------------------------------------------

    @memory_errors_of("The fit")
    def fit(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the kernel weights and the model.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features), or precomputed kernels
            Training samples.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Labels of any type for a classifier, or several columns of 0 and 1; numbers, also of several targets, for a
            regressor.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Non-negative factors on the losses; a sample of weight zero counts as absent.

        Returns
        -------
        estimator
            The estimator, fitted.

        Raises
        ------
        InvalidInputError
            If data or parameters cannot be used; the message says which and why.

        Warns
        -----
        ConvergenceWarning
            If a duality gap stays above ``tol``.
        UserWarning
            If no kernel is selected, for all or for some of the classes or targets; the message names them.

        Examples
        --------
        >>> from manykernels import MKLRegressor
        >>> MKLRegressor(alpha=0.1).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]).predict([[1.5]]).round(3)
        array([1.5])
        """
        loss = self._check_loss()
        rows, target = self._check_data(X, y)
        samples = self._encoded(Samples.create(rows, target, sample_weights(sample_weight, len(target))))
        self._warn(self._learn(samples, loss))
        return self

    @available_if(_is_given_kernels)
    def plan(self, X: TableLike, y: ArrayLike) -> MemoryPlan | None:
        """Return how kernels would be held and what memory a fit would take, before anything is computed.

        Absent for estimators with learned kernels.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            As in ``fit``.

        Returns
        -------
        MemoryPlan or None
            ``expected`` describes the peak memory in words; `expected_nbytes`, `least_nbytes` and `most_nbytes` in
            bytes. With cross-validation the plan of the search. None for a fit of given matrices, with little
            additional memory, and for kernels of pairs.

        Raises
        ------
        MemoryBudgetError
            If it does not fit ``memory_budget``, as ``fit`` does.
        InvalidInputError
            If data or parameters cannot be used.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLRegressor
        >>> X = np.random.default_rng(0).normal(size=(400, 5))
        >>> MKLRegressor(resources={"memory_budget": "1 GB"}).plan(X, X[:, 0]).kind
        'packed'
        """
        model = copy.copy(self)
        loss = model._check_loss()
        rows, target = model._check_data(X, y)
        return model._plan_of_run(model._encoded(Samples.create(rows, target, sample_weights(None, len(target)))), loss)

    def _plan_of_run(self, samples: Samples, loss: Loss) -> MemoryPlan | None:
        """Return the memory plan of a fit of the samples, at a known strength."""
        penalty = self._check_penalty(samples.total_weight)
        plan = self._planned(samples, loss, penalty)
        if plan is None or not penalty.sparse:
            return None if plan is None else replace(plan, likely_share=1.0)
        asked = None if self._strength_is_its_own else relative_strength(self.alpha)
        return plan.at_fraction(None if asked is None else asked.about(len(samples.weight)))

    def _check_data(self, X: TableLike, y: ArrayLike) -> tuple[Rows, Array]:
        """Return checked rows and targets, the only full scan of the data in a fit."""
        if y is None:
            raise InvalidInputError(f"This {type(self).__name__} requires y to be passed, but the target y is None.")
        rows = check_rows(self, X, precomputed=self._takes_kernels, reset=True)
        check_alignment(rows, y)
        drop_attributes(self, ["target_names_"])
        names = names_of_targets(y)
        if names is not None:
            self.target_names_ = names
        target = self._check_target(y)
        check_lengths(len(rows), len(target))
        return rows, target

    def _check_rows(self, X: TableLike) -> Rows:
        """Return new rows in the form of a bank."""
        if self._expansion.bank.raw.of_pairs:
            as_pairs(X)
        read = self.selected_features_ if self._expansion.bank.on_columns else None
        return check_rows(self, X, precomputed=self._takes_kernels, reset=False, read=read)

    @abstractmethod
    def _check_target(self, y: ArrayLike) -> Array:
        """Return labels (N,) or numbers (N,) or (N, K)."""

    @abstractmethod
    def _encoded(self, samples: Samples) -> Samples:
        """Return the samples with a target per column, (n, K), and record the meaning of the columns."""

    def _check_loss(self) -> Loss:
        """Return the loss with the parameters, after a check of all parameters, used or not."""
        given = self._all_parameters()
        check_parameters(given)
        named = isinstance(self.loss, str)
        own = _own(LOSSES[self.loss], given) if named else {}
        own = {name: value[0] if np.ndim(value) else value for name, value in own.items()}  # see ``_losses``
        # Sizes of errors that wait for the target are those of a target of unit spread until then.
        loss = get_loss(
            self.loss, **{name: IN_UNIT_SPREAD[name] if value == AUTO else value for name, value in own.items()}
        )
        if loss.task != self._task:
            raise InvalidInputError(
                f"The loss {loss.name!r} is for {loss.task}, but this is an {type(self).__name__}; use {self._other}, "
                f"or one of the losses for {self._task}."
            )
        return loss

    def _check_penalty(self, total_weight: float) -> Regularizer:
        if self._strength_is_its_own:
            return self.penalty
        given = self.get_params(deep=False)
        own = {name: given[name] for name in parameters_of(self.penalty) if name in given}
        alpha = 1.0 if isinstance(self.alpha, str) else self.alpha  # found for each problem, see ``_learn``
        return get_regularizer(self.penalty, strength_from_alpha(alpha, total_weight), **own)

    @property
    def _strength_is_its_own(self) -> bool:
        """Return whether the penalty is an object with a strength, without ``alpha``."""
        return not isinstance(self.penalty, (str, Mapping))

    @property
    def _leaves_kernels_free(self) -> bool:
        """Whether some kernels have no penalty."""
        penalty = get_regularizer(self.penalty, 1.0) if isinstance(self.penalty, Mapping) else self.penalty
        return bool(np.size(getattr(penalty, "unpenalized", ())))

    def _learn(self, samples: Samples, loss: Loss) -> Fit:
        """Learn from checked samples and keep the model."""
        named = not self._strength_is_its_own
        asked = relative_strength(self.alpha) if named else None
        fit = self._solve(samples, loss, self._check_penalty(samples.total_weight), asked)
        if named:
            self._keep_strengths(fit)
        return fit

    def _keep_strengths(self, fit: Fit) -> None:
        """Set the strengths and the mixing of the fit."""
        alphas = np.array([alpha_from_strength(p.regularizer.strength, p.total_weight) for p in fit.problems])
        one = self._single or self._shares_weights
        self.alpha_ = float(alphas[0]) if one else alphas
        penalties = [problem.regularizer for problem in fit.problems]
        drop_attributes(self, ["l1_ratio_"])
        ratios = np.array([getattr(penalty, "l1_ratio", np.nan) for penalty in penalties])
        if not np.isnan(ratios).any():
            self.l1_ratio_ = float(ratios[0]) if one else ratios

    def _solve(
        self,
        samples: Samples,
        loss: Loss,
        regularizer: Regularizer,
        asked: RelativeStrength | None = None,
        **stops: Any,
    ) -> Fit:
        """Solve a problem per column of targets and keep the model, with separate strengths on request."""
        training, problems = self._open(samples, loss, regularizer)
        batch = self.solver == AUTO and many_targets(problems)
        if batch:
            keep_empty_norms(problems)
        seed, strata = noise_seed(self.random_state), self._noise_strata(samples)
        permuted = PermutedTargets.create(problems, seed, strata, samples.groups)
        levels, rest = self._noise_levels(permuted, problems, training, asked)
        posed, limits = problems, self._resources.limits() | stops
        if asked is not None:
            problems = [set_strength(*pair, asked) for pair in zip(posed, levels, strict=True)]
        until = end_of(limits["time_limit"])
        fit = solve_problems(
            problems, self.solver, self._resources.n_jobs, tol=self.tol, random_state=self.random_state, **limits
        )
        if asked is not None and asked.at_least and not batch and not training.bank.raw.of_pairs:
            limits["time_limit"] = time_left(until)
            choice = SolverChoice(self.solver, self.random_state, tol=self.tol, **limits)
            fit = weaken(fit, levels, lambda k, share: set_strength(posed[k], levels[k], asked, share), choice, seed)
        self._keep_fit(training, fit, samples)
        self._keep_noise(fit, levels, rest)
        return fit

    def _noise_levels(
        self, permuted: PermutedTargets, problems: list[Problem], training: Training, asked: RelativeStrength | None
    ) -> tuple[list[NoiseLevel], Callable[[], list[NoiseLevel]] | None]:
        """Return what noise reaches by as many orders as the fit needs, and what gives the levels by all.

        Strengths in units of noise, and what a search found, are worth all orders, but the fit itself needs those of
        the unit only, and enough to know whether to warn.
        """
        searched = "alpha" not in self.get_params(deep=False)
        given = not searched and (asked is None or asked.unit == "max")
        levels = (permuted.sufficient_levels if given else permuted.levels)(problems)
        if not searched:
            levels = permuted.until_told(levels, training.stack)
        if given or len(levels[0].permuted) >= permuted.wanted:
            return levels, None
        stack = training.again(MOST_BYTES)
        if stack is None:
            return permuted.more(levels, training.stack), None
        return levels, lambda: permuted.more(levels, stack())

    def _open(
        self, samples: Samples, loss: Loss, regularizer: Regularizer, *, kind: str = AUTO, tol: float = 0.0
    ) -> tuple[Training, list[Problem]]:
        """Return the kernels on the samples, matrices held as ``kind`` says, and a problem per column of targets.

        Kernels given as matrices are copied in single precision where no gap below ``tol`` matters, if it is so large.
        """
        n_targets, resources = samples.y.shape[1], self._resources
        if n_targets > 1 and loss.task == "classification" and keeps_shapes(self.kernels):
            raise InvalidInputError(
                "Shapes of columns need two classes, one label or a numeric target, but there are "
                f"{n_targets} classes or labels."
            )
        asked = self._plan_of(n_targets, loss, regularizer)
        n_jobs = resources.n_jobs if n_targets == 1 else None
        # Kernels without a penalty may have weights of any size, which rounding is multiplied by.
        rounded = tol >= SINGLE_PRECISION_TOL and self.kernel_penalties is None
        training = open_training(self.kernels, samples.rows, n_jobs=n_jobs, kind=kind, rounded=rounded, **asked)
        targets = [samples.y] if self._shares_weights else samples.y.T
        problems = build_problems(
            training.stack,
            samples.y,
            self._losses([set_error_sizes(loss, self._open_parameters, target, samples.weight) for target in targets]),
            regularizer,
            fit_intercept=self.fit_intercept,
            sample_weight=samples.weight,
            kernel_penalties=kernel_factors(self._kernel_penalties, training.bank.names),
            share_weights=self._shares_weights,
        )
        return training, problems

    def _planned(
        self, samples: Samples, loss: Loss, regularizer: Regularizer, *, kind: str = AUTO
    ) -> MemoryPlan | None:
        """Return the storage plan of kernels on the samples, for a fit or a search; None for given matrices."""
        asked = self._plan_of(samples.y.shape[1], loss, regularizer)
        return plan_for(self.kernels, samples.rows, **asked | {"form": replace(asked["form"], averages=kind == LAZY)})

    def _plan_of(self, n_targets: int, loss: Loss, regularizer: Regularizer) -> dict[str, Any]:
        """Return the inputs of the storage decision."""
        self._n_targets = n_targets
        shared = self._shares_weights
        batched = self.solver == AUTO and not shared and batches(loss, regularizer, n_targets)
        return {
            "memory_budget": self._resources.memory_budget,
            "representation": self._resources.representation,
            "form": ProblemForm(n_targets, shared, batched, kinked=not loss.smooth, coupled=loss.couples_samples),
            "refusal": partial(refusal_of_factors, loss, regularizer, self.solver),
            "fit_intercept": self._free_constant,
        }

    @property
    def _free_constant(self) -> bool:
        """Return whether scores may shift at no cost, by an intercept or an invariant loss."""
        return bool(self.fit_intercept)

    def _losses(self, losses: list[Loss]) -> list[Loss]:
        """Return the loss of every problem, where the problems differ in more than the target."""
        return losses

    def _keep_fit(self, training: Training, fit: Fit, samples: Samples) -> None:
        """Keep the model of solutions on the kernels."""
        as_solved = fit
        self._expansion, fit = expand_solutions(training, fit)
        loss: Any = fit.problems[0].loss
        self._loss = getattr(loss.each, "loss", loss.each)  # of labels, that without weights
        pairs = zip(fit.problems, fit.solutions, strict=True)
        proofs = np.array([proved_inactive(problem, found.certificate) for problem, found in pairs])
        self.proved_inactive_ = proofs[0] if self._single or self._shares_weights else proofs
        self._keep(training.bank, fit, samples)
        keep_bands(self, as_solved, samples)
        losses = [problem.loss for problem in fit.problems]
        self._keep_importance(as_solved, samples, losses, training.stack if training.factored else training.prepared)

    def _keep_importance(self, fit: Fit, samples: Samples, losses: Sequence[Any], kernels: Any) -> None:
        keep_importance(self, fit, samples, losses, kernels)

    def _keep(self, bank: FittedBank, fit: Fit, samples: Samples) -> None:
        """Set the fitted attributes."""
        self._n_samples = samples.n_given
        solutions = self._keep_samples(fit.solutions, samples)
        self._kernel_frame = bank.frame(scales=False)
        self.kernel_names_ = list(bank.names)
        self.dual_gap_ = max(float(found.certificate.relative_gap) for found in solutions)
        self.n_iter_ = max(1, *(found.n_iter for found in solutions))
        weights = np.array([found.kernel_weights for found in solutions])
        intercepts = np.array([found.intercept for found in solutions])
        every: Any = (weights, fit.norms, intercepts, tuple(solutions))
        values = (part[0] for part in every) if self._single or self._shares_weights else every
        self.kernel_weights_, self.kernel_norms_, self.intercept_, self.solution_ = values
        if self._single:
            self.intercept_ = float(self.intercept_)

    def _noise_strata(self, samples: Samples) -> Array | None:
        """Return the strata of exchangeable targets under the null hypothesis; None for unrestricted."""
        return None

    def _keep_noise(
        self, fit: Fit, levels: Sequence[NoiseLevel], all_levels: Callable[[], Sequence[NoiseLevel]] | None = None
    ) -> None:
        """Keep how the strengths and the kernels compare with permuted targets, now or when somebody asks."""
        pairs = list(zip(fit.problems, levels, strict=False))
        one = self._single or self._shares_weights
        ratios = np.array([level.ratio(problem.regularizer) for problem, level in pairs])
        self.noise_ratio_ = ratios[0] if one else ratios
        told = partial(attributes_of_noise, len(pairs), one)
        if all_levels is not None:
            put_off(self, NOISE, OF_NOISE, lambda: told(all_levels()))
            return
        forget(self, NOISE, OF_NOISE)
        set_all(self, told(levels))

    def _keep_samples(self, solutions: list[Solution], samples: Samples) -> list[Solution]:
        """Set what the model knows of single samples, and return the solutions as they are kept.

        A model of factors knows nothing of samples, and no number of it grows with theirs where factors were asked for;
        where chosen for their speed, it tells the dual coefficients that a model of matrices would.
        """
        of_samples = ("support_", "dual_coef_", "approximate_gap_", "_support_targets", "_support_weights")
        drop_attributes(self, of_samples)
        self.representation_ = GRAM if self._expansion.stores_samples else FACTORED
        factored = [found.functions for found in solutions if isinstance(found.functions, FactorFunctions)]
        if factored:
            self.approximate_gap_ = max(functions.approximate_gap for functions in factored)
            if self._resources.representation != FACTORED:
                self._keep_dual(np.vstack([found.dual_coef.T for found in solutions]), samples)
            return [replace(s, dual_coef=np.zeros((0, *np.shape(s.intercept))), functions=None) for s in solutions]
        rho = self._expansion.coefficients
        alive = [own.dual_coef.reshape(len(own.dual_coef), -1).any(axis=1) for own in solutions]
        support = np.flatnonzero(np.any(alive, axis=0))
        self.support_ = samples.kept[support]
        whole = len(support) == len(samples.y) and samples.y.shape[1] > 1  # several targets are copies already
        self._support_targets = samples.y if whole else samples.y[support]
        self._support_weights = samples.weight[support]
        self.dual_coef_ = rho[0] if self._single else rho
        return [found.scatter(samples.kept, samples.n_given) for found in solutions]

    def _keep_dual(self, rho: Array, samples: Samples) -> None:
        """Set the nonzero dual coefficients (K, N) and the support."""
        alive = np.flatnonzero(rho.any(axis=0))
        self.support_ = samples.kept[alive]
        self.dual_coef_ = rho[0, alive] if self._single else rho[:, alive]

    def _warn(self, fit: Fit) -> None:
        """Warn once of deficiencies of the solutions."""
        unfinished = [found for found in fit.solutions if found.status is not Status.CONVERGED]
        if unfinished:
            worst = max(unfinished, key=lambda found: found.certificate.relative_gap)
            rest, number = len(unfinished) - 1, next(k for k, found in enumerate(fit.solutions) if found is worst)
            which = f"{self._target_word.capitalize()} {self._target_labels()[number]}: "
            more = f" So did {rest} more of the {len(fit.solutions)} problems." if rest else ""
            warn((which if len(fit.solutions) > 1 else "") + worst.message + more, ConvergenceWarning)
            return
        empty = [number for number, found in enumerate(fit.solutions) if not found.kernel_weights.any()]
        if len(empty) == len(fit.solutions):
            warn(f"No kernel was selected: {why_constant(fit) or self._why_none(fit)}")
            return
        constant = constant_targets(fit)  # the best that a model of them can be is empty
        empty = [number for number in empty if number not in constant]
        if empty:
            searched = "alpha" not in self.get_params(deep=False)
            told = why_some(empty, self._target_labels(), self._target_word, self.alpha, searched=searched)
            warn(told)

        self._warn_of_noise()

    def _warn_of_noise(self) -> None:
        """Say so if the kernels could as well have been selected from noise.

        Not after cross-validation, whose held-out rows are better evidence.
        """
        if "alpha" not in self.get_params(deep=False) or is_put_off(self, NOISE):
            return  # what is put off is beyond doubt
        chance = getattr(self, "_noise_p_value", 0.0)
        if chance <= SIGNIFICANT:
            return
        n_selected = int((np.atleast_2d(self.kernel_weights_) > 0).any(axis=0).sum())
        warn(
            "The kernels are not more strongly related to y than to y in random order (p = "
            f"{chance:.2g}): pure noise would select about as many kernels as this fit, {n_selected}. Check held-out "
            "scores before reading the selection.",
        )

    def _why_none(self, fit: Fit) -> str:
        """Return why no target has a kernel."""
        return why_none(fit, self.tol)

    def _output_labels(self) -> Array:
        """Return the names of several targets of a regression, or else their numbers."""
        names: Array | None = getattr(self, "target_names_", None)
        return np.arange(self._expansion.n_targets) if names is None else names

    @property
    def _kernel_penalties(self) -> Any:
        """Factors on the norms of kernels, after the choice among candidates."""
        return self.kernel_penalties

    @property
    def _shares_weights(self) -> bool:
        """Whether there are several classes or targets, with a single set of kernel weights."""
        return getattr(self, "outputs", "own") == "shared" and self._n_targets > 1

    @property
    def _n_threads(self) -> int:
        """Number of threads for prediction."""
        return n_threads(self._group("resources").n_jobs)

    @property
    def _open_parameters(self) -> dict[str, Any]:
        """Open parameters of a loss given by name; an object has none."""
        return self._all_parameters() if isinstance(self.loss, str) else {}

    # --- copies -----------------------------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        """Return a copy with shared state and deferred attributes."""
        model = type(self).__new__(type(self))
        set_all(model, vars(self))
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with all deferred attributes computed."""
        settle(self)
        state: dict[str, Any] = super().__getstate__()
        return state

    # --- predicting -------------------------------------------------------------------------------------------------

    def _scores(self, X: TableLike) -> Array:
        """Return the decision values of new rows, (n, K) float64."""
        if not hasattr(self, "_expansion"):  # the check reads tags, which takes longer than to predict one row
            check_is_fitted(self)
        rows = self._check_rows(X)
        if (scores := self._expansion.scores_of_few(rows)) is None:  # a limit would take longer than few rows
            with blas_limit(self._n_threads):
                scores = self._expansion.scores(rows)
        return scores + np.asarray(self.intercept_, dtype=scores.dtype)  # single precision, where coefficients are

    def _values(self, X: TableLike) -> Array:
        """Return the same, as a vector for a single target or two classes."""
        scores = self._scores(X)  # which says so of an estimator that is not fitted
        return scores[:, 0] if self._single else scores

    def _predicting(self, expansion: Expansion, intercepts: Array, loss: Loss) -> Self:
        """Return the estimator with other functions, for scorers of predictions."""
        model = copy.copy(self)
        model._expansion, model._loss = expansion, loss
        model.intercept_ = float(intercepts[0]) if self._single else intercepts
        return model

    def _attach_scores(self, rows: TableLike, scores: Array) -> Self:
        """Return the estimator with known decision values of the rows, for repeated scoring."""
        model = copy.copy(self)
        model._scores = lambda X: scores if X is rows else self._scores(X)  # type: ignore[method-assign]
        return model


def _own(kind: type[Loss] | type[Regularizer], given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the loss or penalty, as far as available in the estimator."""
    return {name: given[name] for name in shape_of(kind) if name in given}

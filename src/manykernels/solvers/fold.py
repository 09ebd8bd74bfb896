"""A fold: training rows, opened once, and held-out rows, for all candidates of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from manykernels.solvers.run import check_deadline

if TYPE_CHECKING:
    from manykernels.validation.arrays import Array


@dataclass(frozen=True, eq=False)
class Candidate:
    """A strength of a family with the results of a fold, or of several folds together."""

    family: Any  # the mixture, or the family of penalties
    strength: float  # of a mixture the fraction of the strengths at which next to nothing is left; of a family alpha
    scores: Array  # (n_folds, T) float64
    n_active: float  # mean number of kernels
    unfinished: int = 0  # folds whose model was not solved to its tolerance
    edge: bool = False  # whether its path had to end there although the score was still rising

    @classmethod
    def create(cls, trials: Sequence[Candidate], *, edge: bool = False) -> Candidate:
        """Return the results of all folds for their strengths."""
        scores = np.concatenate([trial.scores for trial in trials])
        kernels = float(np.mean([trial.n_active for trial in trials]))
        unfinished = sum(trial.unfinished for trial in trials)
        return cls(trials[0].family, trials[0].strength, scores, kernels, unfinished, edge)

    @property
    def complete(self) -> bool:
        """Return whether all folds were tried."""
        return bool(np.isfinite(self.n_active))


class Family(Protocol):
    """A candidate family: kernels under a penalty with open strength, in a family-specific unit."""

    @property
    def averages(self) -> bool:
        """Return whether kernel weights are fixed, with a single kernel sum for every strength."""
        ...

    def pose_problems(self, problems: list[Any], names: tuple[str, ...]) -> list[Any]:
        """Return problems on all kernels restricted to the participating kernels."""
        ...

    def penalties(self, strength: float, opened: Any) -> list[Any]:
        """Return the penalty of every problem on the kernels of some rows."""
        ...

    def embed(self, fit: Any, problems: Sequence[Any]) -> Any:
        """Return solutions of restricted problems as models on all kernels."""
        ...

    def settings(self, strength: float) -> dict[str, Any]:
        """Return the estimator parameters of the model at a given strength."""
        ...


class Learnable(Protocol):
    """The learning problem of an opened fold."""

    def try_strength(
        self, family: Any, strength: float, held_out: Any, start: Any, solved: Any
    ) -> tuple[Any, Candidate]:
        """Return the model of a strength, and what held-out rows say of it.

        ``start`` is a model of the same family to begin from, ``solved`` what outlasted the model itself; or None.
        """
        ...

    def outlasting(self, model: Any) -> Any:
        """Return the permanent part of a model, sufficient to repeat the scores."""
        ...


Opened = TypeVar("Opened", bound=Learnable)
HeldOut = TypeVar("HeldOut")


@dataclass(eq=False)
class Fold(Generic[Opened, HeldOut]):
    """Some rows to learn from: they are opened once, and whatever is searched is tried on them.

    Results are cached until release, and every strength is solved from the nearest known strength.
    """

    open: Callable[[], Opened]
    held_out: HeldOut
    stop: Event = field(default_factory=Event)  # set when nothing more is wanted
    rows: Array | None = None  # (n,) int: numbers of the rows to learn from, where others begin from their models
    begin: Callable[[Any, Any, float], Any] | None = None  # where its first model of a family starts from, or None
    _opened: Opened | None = field(default=None, init=False)
    _models: dict[int, dict[float, Any]] = field(default_factory=dict)
    _scores: dict[tuple[int, float], Candidate] = field(default_factory=dict)
    _kept: dict[tuple[int, float], Any] = field(default_factory=dict)

    @property
    def kernels(self) -> Opened:
        """Return the opened rows."""
        if self._opened is None:
            self._opened = self.open()
        return self._opened

    @property
    def is_open(self) -> bool:
        """Whether the rows are open."""
        return self._opened is not None

    def try_strength(self, family: object, strength: float) -> Candidate:
        """Return the held-out results for the model of a strength."""
        known = self._scores.get((id(family), strength))
        if known is not None:
            return known
        check_deadline()
        models, solved = self._models.setdefault(id(family), {}), self._kept.get((id(family), strength))
        if models:
            start = models[nearest(models, strength)]
        else:
            start = self.begin(self, family, strength) if self.begin is not None and solved is None else None
        model, score = self.kernels.try_strength(family, strength, self.held_out, start, solved)
        if solved is None:
            models[strength] = model
        if self.stop.is_set():
            raise KeyboardInterrupt
        if score.unfinished:
            check_deadline()  # a model that was not finished for lack of time counts for nothing
        self._scores[id(family), strength] = score
        return score

    def models_of_family(self, family: object) -> dict[float, Any]:
        """Return the retained models of a family, by strength."""
        return {strength: model for (of, strength), model in self._kept.items() if of == id(family)}

    def retained_models(self, kind: type) -> list[tuple[float, Any]]:
        """Return the retained models of a kind, of any family, with their strengths."""
        return [(strength, model) for (_, strength), model in self._kept.items() if isinstance(model, kind)]

    def model(self, family: object, strength: float) -> Any:
        """Return the model of a strength tried."""
        return self._models[id(family)][strength]

    def lighten(self, family: object) -> None:
        """Reduce the models of a family to the permanent part, for warm starts."""
        models = self._models.get(id(family), {})
        models |= {strength: self.kernels.outlasting(model) for strength, model in models.items()}

    def forget(self, family: object = None, strengths: Sequence[float] = ()) -> None:
        """Drop the results, except models of a family at some strengths."""
        models = self._models.get(id(family), {})
        known = [strength for strength in strengths if strength in models]
        self._kept |= {(id(family), strength): self.kernels.outlasting(models[strength]) for strength in known}
        self._models.clear()
        self._scores.clear()

    def close(self, *, kept: bool = True) -> None:
        """Close the opened rows; the next model reopens the fold, with warm starts from retained models only."""
        self._opened = None
        if not kept:  # which may hold the kernels that they are of
            self.begin = None
            self._kept.clear()


def nearest(models: dict[float, Any], strength: float) -> float:
    """Return the best starting strength among the known strengths."""
    return min(models, key=lambda other: abs(np.log(other / strength)))

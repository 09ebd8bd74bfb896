"""Two-stage learning as a transformer: from rows to the kernel most aligned with the target."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from manykernels.alignment import CODINGS, METHODS, AlignedWeights, aligned_weights
from manykernels.estimators.parameters import Kernels, Resources, TakesGroups
from manykernels.estimators.supervised.samples import check_lengths, check_rows
from manykernels.exceptions import InvalidInputError, memory_errors_of
from manykernels.grams import cross_combine
from manykernels.grams.training import Training, is_precomputed, open_training
from manykernels.threads import blas_limit, n_threads
from manykernels.validation.arrays import Array, TableLike, check_choice


class KernelAligner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TakesGroups):
    r"""Combine many kernels into the one that is most like the target, for any learner with a precomputed kernel.

    The first of two stages: kernel weights :math:`\theta \ge 0` are chosen before learning, by the centered alignment
    of :math:`\sum_m \theta_m K_m` with the ideal kernel of the labels. ``fit_transform(X, y)`` is the combined kernel
    among the training samples, ``transform(X)`` the kernel between new and training samples. So
    ``make_pipeline(KernelAligner(bank), SVC(kernel="precomputed"))`` is a classifier, for tuning and cross-validation.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, "precomputed" or None, default=None
        The kernels. None: Gaussian kernels of three widths and a linear kernel, on every column and on all columns
        (:meth:`KernelBank.auto`). With "precomputed", X is a :class:`KernelStack`, an (M, N, N) array or a list of (N,
        N) arrays, used unchanged; a :class:`PrecomputedBank` normalizes it.
    method : {"joint", "independent", "uniform"}, default="joint"
        ``"joint"`` maximizes the alignment of the combination (alignf), ``"independent"`` weighs every kernel by the
        respective alignment, ``"uniform"`` weighs all alike and needs no y.
    target : {"auto", "numbers", "signs", "indicator", "balanced"}, default="auto"
        How y becomes the ideal kernel, see :func:`target_kernel`. ``"auto"`` takes text, booleans, two values, and at
        most ten different whole numbers as labels, as ``manykernels fit`` does: for more classes that are numbered,
        give ``"signs"``, for few counts ``"numbers"``. ``"balanced"`` gives every class the same influence.
    center : bool, default=True
        Whether kernels are centered for the alignment; what is returned is not centered, unless the bank does so.
    tol : float, default=1e-8
        Proven relative distance from the largest alignment at which ``"joint"`` stops.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``memory_budget``, ``n_jobs``; see
        :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    kernel_weights_ : ndarray of shape (n_kernels,)
        Weights ``theta``, non-negative, summing to 1.
    kernel_names_ : list of str
        Names of the kernels.
    kernel_alignments_ : ndarray of shape (n_kernels,)
        Alignment of every kernel by itself; NaN without y.
    alignment_ : float
        Alignment of the combination with the target on the training samples; NaN without y.
    result_ : AlignedWeights
        All of this with the certificate of ``"joint"``: ``result_.gap`` bounds how much larger an alignment could be.
    n_features_in_ : int
        Number of columns of X; of training samples for precomputed kernels.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if X was a DataFrame with string names.

    See Also
    --------
    MKLClassifier : Weights and classifier learned together.
    manykernels.alignment.aligned_weights : The same from Gram matrices to weights, without an estimator.

    Notes
    -----
    A large alignment does not have to mean a small error: weights are chosen without regard to the learner and without
    a penalty, so that many flexible kernels on few samples can be aligned with noise.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, "Algorithms for learning kernels based on centered alignment", JMLR 13 (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from manykernels import KernelAligner
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 3))
    >>> y = np.where(X[:, 0] ** 2 + X[:, 1] > 1, "yes", "no")
    >>> model = make_pipeline(KernelAligner(), SVC(kernel="precomputed", C=10.0)).fit(X, y)
    >>> model.score(X, y) > 0.9, model[0].transform(X[:5]).shape
    (True, (5, 80))
    """

    _uses = {"resources": ("memory_budget", "n_jobs")}  # noqa: RUF012  # never changed, as its declaration says

    def __init__(
        self,
        kernels: Kernels = None,
        method: str = "joint",
        *,
        target: str = "auto",
        center: bool = True,
        tol: float = 1e-8,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels, self.method, self.target, self.center = kernels, method, target, center
        self.tol, self.resources = tol, resources

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernels)
        tags.target_tags.required = self.method != "uniform"
        return tags

    @memory_errors_of("The alignment")
    def fit(self, X: TableLike, y: ArrayLike | None = None) -> Self:
        """Choose the kernel weights.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features), or precomputed kernels
            Training samples.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or None
            Labels of any type, or numbers; None for ``method="uniform"`` only.

        Returns
        -------
        KernelAligner
            This transformer, fitted.

        Raises
        ------
        InvalidInputError
            If data or parameters cannot be used, or the alignment is not defined (constant y, constant kernels, or no
            kernel with anything in common with y).

        Warns
        -----
        ConvergenceWarning
            If rounding keeps the weights from being proven optimal within ``tol``.

        Examples
        --------
        >>> from manykernels import KernelAligner
        >>> KernelAligner().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]).kernel_weights_.sum().round(6)
        np.float64(1.0)
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: TableLike, y: ArrayLike | None = None) -> Array:
        """Choose the kernel weights and return the combined kernel among the training samples.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features), or precomputed kernels
            Training samples.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or None
            Labels of any type, or numbers.

        Returns
        -------
        ndarray of shape (n_samples, n_samples)
            Exactly symmetric; equal to ``transform(X)`` up to rounding, and cheaper.

        Raises
        ------
        InvalidInputError
            As in `fit`.

        Examples
        --------
        >>> from manykernels import KernelAligner
        >>> KernelAligner().fit_transform([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]).shape
        (4, 4)
        """
        return self._learn(X, y).stack.combine(self.kernel_weights_)

    def transform(self, X: TableLike) -> Array:
        """Return the combined kernel between samples and the training samples.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_new, n_features), or precomputed kernels
            Samples. Precomputed: a view of the KernelStack that was split, or an (M, n_new, n_train) array.

        Returns
        -------
        ndarray of shape (n_new, n_train)

        Examples
        --------
        >>> from manykernels import KernelAligner
        >>> aligner = KernelAligner().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> aligner.transform([[0.5]]).shape
        (1, 4)
        """
        check_is_fitted(self)
        rows = check_rows(self, X, precomputed=is_precomputed(self.kernels), reset=False)
        with blas_limit(n_threads(self._resources.n_jobs)):
            return cross_combine(self._bank, self._bank.prepare(rows), self._train, self._active_weights)

    def weights_frame(self, *, active_only: bool = True) -> pd.DataFrame:
        """Return the kernels with their weights, the heaviest first.

        Parameters
        ----------
        active_only : bool, default=True
            Only kernels with a positive weight.

        Returns
        -------
        DataFrame
            A row per kernel: ``name``, ``kernel``, ``columns``, ``weight`` and ``alignment`` (of the kernel by itself).

        Examples
        --------
        >>> from manykernels import KernelAligner
        >>> aligner = KernelAligner(method="independent").fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> aligner.weights_frame().columns.tolist()
        ['name', 'kernel', 'columns', 'weight', 'alignment']
        """
        check_is_fitted(self)
        frame = self._kernel_frame.assign(weight=self.kernel_weights_, alignment=self.kernel_alignments_)
        frame = frame.sort_values("weight", ascending=False, kind="stable", ignore_index=True)
        return frame[frame["weight"] > 0].reset_index(drop=True) if active_only else frame

    @property
    def _n_features_out(self) -> int:
        """Number of columns of the combined kernel, for ``get_feature_names_out``."""
        return int(self._train.n_samples)

    def _learn(self, X: TableLike, y: ArrayLike | None) -> Training:
        check_choice(self.method, METHODS, "method")
        check_choice(self.target, CODINGS, "target")
        if y is None and self.method != "uniform":
            raise InvalidInputError(
                f"This {type(self).__name__} requires y to be passed, but the target y is None; only method='uniform' "
                "can do without."
            )
        rows = check_rows(self, X, precomputed=is_precomputed(self.kernels), reset=True)
        given = None if y is None else np.asarray(y)
        check_lengths(len(rows), len(rows) if given is None or not given.ndim else len(given))
        budget, n_jobs = self._resources.memory_budget, self._resources.n_jobs
        training = open_training(self.kernels, rows, memory_budget=budget, n_jobs=n_jobs)
        found = aligned_weights(
            training.stack, given, self.method, target=self.target, center=self.center, tol=self.tol
        )
        self._keep(training, found)
        return training

    def _keep(self, training: Training, found: AlignedWeights) -> None:
        active = np.flatnonzero(found.weights)
        self._bank = training.bank.take(active)
        self._train = self._bank.narrow(training.prepared).detach()
        self._active_weights = found.weights[active]
        self._kernel_frame = training.bank.frame(scales=False)
        self.kernel_names_ = list(training.bank.names)
        self.kernel_weights_, self.kernel_alignments_ = found.weights, found.kernel_alignments
        self.alignment_, self.result_ = found.alignment, found

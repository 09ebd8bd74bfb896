"""What a model reads in a column of sequences: which words speak for it, and which places change its score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.displays.decomposition import for_target
from manykernels.inspection.displays.kernel_table import effect_of
from manykernels.inspection.displays.plotting import BLUE, ORANGE, Display, clean, color_of, name_rows, plain, write
from manykernels.inspection.pipelines import unwrapped
from manykernels.kernels import Kmers
from manykernels.validation.arrays import Array, check_choice, check_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_WORDS = 15  # in a picture
KINDS = ("words", "places")
LONGEST_WORD = 12
NO_WORDS = pd.DataFrame({"word": [], "effect": [], "share": []})


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceDisplay(Display):
    r"""What a column of sequences adds to the score, by the words in it and by the places of its letters.

    The effect of a word is what the kernels of the column add for a sequence that shows nothing but this word. The
    effect of a place is the root of the mean square of how much the score changes when another letter stands there,
    over some sequences and all other letters (mutagenesis in silico). Make it with :meth:`from_estimator`; ``plot``
    takes ``kind``, "words" or "places".

    Parameters
    ----------
    words : DataFrame
        ``word``, ``effect``, and ``share``, that of the sequences which have it; the strongest effects first.
    places : DataFrame
        ``place``, counted from 0, and ``effect``.
    name, effect : str
        Of the column, and what a positive effect of a word speaks for.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from manykernels import KernelBank, MKLClassifier
    >>> from manykernels.inspection import SequenceDisplay
    >>> from manykernels.kernels import Kmers
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 120)
    >>> dna = ["".join(row) for row in rng.choice(list("ACGT"), (120, 20))]
    >>> X = pd.DataFrame({"dna": [text[:8] + "GATTA" + text[13:] if own else text for text, own in zip(dna, y)]})
    >>> bank = KernelBank([("words", Kmers(5), "dna")])
    >>> seen = SequenceDisplay.from_estimator(MKLClassifier(bank, alpha=0.02).fit(X, y), X)
    >>> seen.frame()["word"].iloc[0]
    'GATTA'
    >>> bool(seen.places.set_index("place")["effect"].idxmax() in range(8, 13))
    True

    Notes
    -----
    Zhou and Troyanskaya, Predicting effects of noncoding variants with deep learning-based sequence model, Nature
    Methods 12 (2015), for changes of single letters.
    """

    words: pd.DataFrame
    places: pd.DataFrame
    name: str
    effect: str = "added to the score"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: pd.DataFrame,
        *,
        column: Hashable = None,
        length: int | None = None,
        n_rows: int = 100,
        n_words: int = 1000,
        target: Hashable = None,
    ) -> Self:
        """Evaluate a model at words, and at sequences of which one letter is another one.

        Parameters
        ----------
        estimator : MKLClassifier, MKLRegressor or a search, or a Pipeline that ends in one
        X : DataFrame
            Rows, such as those of training.
        column : str, optional
            The column of sequences; None takes the only one that kernels of k-mers read.
        length : int, optional
            Letters of a word; None takes those of the longest k-mers with a weight whose places do not matter, 12 at
            most. If there are none, there are no words.
        n_rows : int, default=100
            Sequences in which letters are changed, the first ones.
        n_words : int, default=1000
            Words, those that most sequences have.
        target : label, int or None, default=None
            The class or output, needed where there are several.

        Raises
        ------
        InvalidInputError
            If no kernel of k-mers reads the column, there are several such columns, or a number is less than 1.
        """
        check_is_fitted(estimator)
        model, X = unwrapped(estimator, X)
        read = _readers(model)
        if column is None and len(read) != 1:
            told = f"{len(read)} do: name one by column=" if read else "none does"
            raise InvalidInputError(f"The column of sequences is the only one that kernels of k-mers read, but {told}.")
        name = next(iter(read)) if column is None else column
        if name not in read:
            raise InvalidInputError(f"Kernels of k-mers read {sorted(map(str, read))}, and not {name!r}.")
        rows, kernels = pd.DataFrame(X), read[name]
        label = effect_of(model, target)
        size = None if length is None else check_count(length, "length")
        words = _words(model, rows, name, kernels, size, check_count(n_words, "n_words"), target)
        places = _places(model, rows.head(check_count(n_rows, "n_rows")), name, kernels, target)
        return cls(words=words, places=places, name=str(name), effect=label)

    def frame(self) -> pd.DataFrame:
        """Return the words with their effects, or the places where no kernel reads words without a place."""
        return self.words if len(self.words) else self.places

    def _size(self, *, kind: str | None = None, **options: object) -> tuple[float, float]:
        return (6.0, 0.8 + 0.3 * SHOWN_WORDS) if self._kind(kind) == "words" else (8.0, 3.0)

    def _kind(self, kind: str | None) -> str:
        """Return what to draw: words if there are any."""
        if kind is not None:
            check_choice(kind, KINDS, "kind")
        return kind or ("words" if len(self.words) else "places")

    def _draw(self, ax: Axes, *, kind: str | None = None, **bar_style: Any) -> None:
        """Draw bars, of the strongest words or of all places."""
        if self._kind(kind) == "places":
            ax.bar(
                self.places["place"], self.places["effect"], **{"width": 0.9, "color": color_of(ax, BLUE), **bar_style}
            )
            write(ax, xlabel=plain(f"letters of {self.name}, from 0"))
            ax.set_ylabel("change of the score")
            clean(ax)
            return
        shown = self.words.head(SHOWN_WORDS)
        colors = [color_of(ax, ORANGE if effect > 0 else BLUE) for effect in shown["effect"]]
        ax.barh(np.arange(len(shown)), shown["effect"], **{"color": colors, **bar_style})
        name_rows(ax, shown["word"], len(self.words) - len(shown))
        write(ax, xlabel=plain(self.effect))
        clean(ax, grid="x")


def _readers(model: BaseEstimator) -> dict[Any, dict[int, Kmers]]:
    """Return the kernels of k-mers that have a weight, by the column that they read and by their number."""
    kept, found = model._expansion, dict[Any, dict[int, Kmers]]()
    table = kept.bank.table
    for m, spec, columns in zip(kept.active, table.specs, table.positions, strict=False):  # none may be active
        if isinstance(spec, Kmers):
            found.setdefault(model.feature_names_in_[columns[0]], {})[int(m)] = spec
    return found


def _effects(model: BaseEstimator, rows: pd.DataFrame, kernels: Iterable[int], target: Hashable) -> Array:
    """Return what some kernels add to the score of rows, (n,)."""
    parts, _ = for_target(model, model.decompose(rows), target)
    return np.asarray(parts[list(kernels)].sum(axis=0))


def _words(
    model: BaseEstimator,
    rows: pd.DataFrame,
    name: Any,
    kernels: dict[int, Kmers],
    length: int | None,
    most: int,
    target: Hashable,
) -> pd.DataFrame:
    """Return the effects of the words that most sequences have."""
    free = {m: spec for m, spec in kernels.items() if not spec.positional}
    if not free:
        return NO_WORDS
    size = length or min(max(spec.k for spec in free.values()), LONGEST_WORD)
    letters = set(next(iter(free.values())).letters)
    counts: Counter[str] = Counter()
    for text in rows[name].dropna():
        read = str(text).upper() if not any(letter.islower() for letter in letters) else str(text)
        counts.update({read[i : i + size] for i in range(len(read) - size + 1)})
    known = [word for word, _ in counts.most_common() if set(word) <= letters][:most]
    if not known:
        return NO_WORDS
    probe = rows.iloc[np.zeros(len(known), dtype=int)].reset_index(drop=True).assign(**{name: known})
    table = pd.DataFrame({"word": known, "effect": _effects(model, probe, free, target)})
    table["share"] = [counts[word] / len(rows) for word in known]
    return table.sort_values("effect", key=np.abs, ascending=False, kind="stable").reset_index(drop=True)


def _places(
    model: BaseEstimator, rows: pd.DataFrame, name: Any, kernels: dict[int, Kmers], target: Hashable
) -> pd.DataFrame:
    """Return how much the score changes in the mean where another letter stands at a place."""
    letters = next(iter(kernels.values())).letters
    rows = rows[rows[name].notna()]
    before = _effects(model, rows, kernels, target)
    longest = int(rows[name].str.len().max()) if len(rows) else 0
    squares, counts = np.zeros(longest), np.zeros(longest)
    for place in range(longest):
        reached = rows[name].str.len().to_numpy() > place
        for letter in letters:
            own = rows[name].str[place].str.upper() if letter.isupper() else rows[name].str[place]
            changed = reached & (own != letter).to_numpy()
            if changed.any():
                texts = rows[name][changed].map(lambda text, at=place, new=letter: text[:at] + new + text[at + 1 :])
                after = _effects(model, rows[changed].assign(**{name: texts}), kernels, target)
                squares[place] += float(np.sum((after - before[changed]) ** 2))
                counts[place] += changed.sum()
    return pd.DataFrame({"place": np.arange(longest), "effect": np.sqrt(squares / np.maximum(counts, 1))})

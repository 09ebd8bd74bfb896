"""What a fit puts off until somebody asks, and what is asked for when a model is copied or saved.

Deferred attributes are computed from private state of the fit: the answer is independent of the time of access. The
answer is kept, and the sources are released.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from manykernels.validation.parameters import drop_attributes

MOST_BYTES = 2**24  # that one question may hold; what would hold more is answered by the fit
QUESTIONS = "_questions"


class Question:
    """Attributes of a fitted model computed together; shallow copies of the model share the answer."""

    def __init__(self, answer: Callable[[], dict[str, Any]]) -> None:
        self._answer: Callable[[], dict[str, Any]] | None = answer
        self._found: dict[str, Any] = {}
        self._one_at_a_time = Lock()

    def answers(self) -> dict[str, Any]:
        """Return the available attributes by name."""
        with self._one_at_a_time:
            if self._answer is not None:
                self._found, self._answer = self._answer(), None
            return self._found


class Answer:
    """A lazy attribute of a fitted model: computed on first access, then stored."""

    def __init__(self, about: str) -> None:
        self._about = about

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: object, owner: type | None = None) -> Any:
        if model is None:
            return self
        settle(model, self._about)
        try:
            return model.__dict__[self._name]
        except KeyError:
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {self._name!r}") from None


def put_off(model: object, about: str, names: Sequence[str], answer: Callable[[], dict[str, Any]]) -> None:
    """Defer the computation of the attributes until access."""
    forget(model, about, names)
    setattr(model, QUESTIONS, {**_questions(model), about: Question(answer)})


def is_put_off(model: object, about: str) -> bool:
    """Return whether attributes of a subject are still to be computed."""
    return about in _questions(model)


def settle(model: object, about: str | None = None) -> None:
    """Compute deferred attributes: the selected or all."""
    asked = _questions(model)
    for name in list(asked) if about is None else [about] if about in asked else []:
        set_all(model, asked[name].answers())
        forget(model, name)


def set_all(model: object, found: Mapping[str, Any]) -> None:
    """Set attributes of a fitted model by name."""
    for name, value in found.items():
        setattr(model, name, value)


def _questions(model: object) -> dict[str, Question]:
    return getattr(model, QUESTIONS, {})


def forget(model: object, about: str, names: Sequence[str] = ()) -> None:
    """Drop the attributes, and their sources."""
    left = {name: question for name, question in _questions(model).items() if name != about}
    drop_attributes(model, (QUESTIONS, *names))
    if left:
        setattr(model, QUESTIONS, left)


def drop_questions(model: Any) -> Any:
    """Return a model without deferred attributes, in place."""
    drop_attributes(model, [QUESTIONS])
    return model

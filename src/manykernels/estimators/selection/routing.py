"""Metadata routing of searches: from `fit` to the splitter and the scorer."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, get_routing_for_object, process_routing

from manykernels.validation.arrays import Array


def is_routing_enabled() -> bool:
    """Return whether metadata routing is enabled in the configuration of scikit-learn."""
    return bool(get_config()["enable_metadata_routing"])


def router_of(search: Any) -> MetadataRouter:
    """Return the router of a search: `fit` passes metadata to the splitter and, unless that is the loss, the scorer.

    A number of folds keeps groups whole, with a request like `GroupKFold`.
    """
    splitter = GroupKFold() if search.cv is None or isinstance(search.cv, Integral) else search.cv
    router = MetadataRouter(owner=search).add_self_request(search)
    router.add(splitter=splitter, method_mapping=MethodMapping().add(caller="fit", callee="split"))
    if search.scoring is not None:
        scorer = check_scoring(search, scoring=search.scoring)
        router.add(scorer=scorer, method_mapping=MethodMapping().add(caller="fit", callee="score"))
    return router


def routed_metadata(search: Any, target: Array, **metadata: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return the folds, the groups, and the metadata of the scorer: without routing, the sample weights.

    The folds are those of the search, or their list where the splitter takes more than groups.
    """
    given = {name: value for name, value in metadata.items() if value is not None}
    if is_routing_enabled():
        routed = process_routing(search, "fit", **given)
        own, scored = routed["splitter"]["split"], {} if search.scoring is None else dict(routed["scorer"]["score"])
        others = own.keys() - {"groups"}
        cv = list(search.cv.split(np.zeros(len(target)), target, **own)) if others else search.cv
        return cv, own.get("groups"), scored
    foreign = sorted(given.keys() - {"groups", "sample_weight"})
    if foreign:
        raise TypeError(
            f"{type(search).__name__}.fit() got an unexpected keyword argument {foreign[0]!r}. To pass metadata other "
            "than sample_weight and groups, enable routing: sklearn.set_config(enable_metadata_routing=True)."
        )
    return search.cv, given.get("groups"), {name: given[name] for name in ["sample_weight"] if name in given}


def weighs_scores(search: Any) -> bool:
    """Return whether the scorer of a search takes sample weights, by request under routing."""
    if not is_routing_enabled():
        return True
    scorer = check_scoring(search, scoring=search.scoring)
    return "sample_weight" in get_routing_for_object(scorer).consumes("score", ["sample_weight"])


def fit_groups(model: BaseEstimator, groups: ArrayLike | None) -> dict[str, Any]:
    """Return the groups for ``fit``, under routing only on request of the model or a step."""
    wanted = not is_routing_enabled() or get_routing_for_object(model).consumes("fit", ["groups"])
    return {"groups": groups} if groups is not None and wanted else {}

"""Penalties by group: which kernels a mapping means, what it says of mistakes, and the curve of the whole."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from manykernels import solve
from manykernels.exceptions import InvalidInputError
from manykernels.objective import BlockL1, ElasticNet, PenaltyByGroup, Ridge, get_regularizer
from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers.groups import kernels_called

NAMES = ("subject", "batch 1", "batch 2", "rna: linear", "rna: gaussian", "age")


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("subject", [0]),
        ("batch*", [1, 2]),
        ("rna", [3, 4]),
        ("*linear", [3]),
        (5, [5]),
        (("age", "batch ?"), [1, 2, 5]),
        ("*", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_what_a_group_is_called(group, expected) -> None:
    assert np.flatnonzero(kernels_called(group, NAMES)).tolist() == expected


def test_names_count_before_patterns_and_the_rest_is_what_remains() -> None:
    mapping = {"*": "l1", "batch*": Ridge(2.0), "batch 2": ElasticNet(3.0, l1_ratio=0.5)}
    penalty = get_regularizer(mapping, 0.5).on_kernels(NAMES)
    assert penalty.owners == (0, 1, 2, 0, 0, 0)
    np.testing.assert_allclose(penalty.curve.linear, [0.5, 0.0, 0.75, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(penalty.curve.ridge, [0.0, 1.0, 0.75, 0.0, 0.0, 0.0])
    assert get_regularizer({"default": "l1", **{k: v for k, v in mapping.items() if k != "*"}}, 0.5).on_kernels(
        NAMES
    ).owners == (0, 1, 2, 0, 0, 0)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"subjekt": "ridge", "*": "l1"}, "No kernel is called 'subjekt'. There are 'subject', 'batch 1'"),
        (
            {"batch*": "ridge", "batch 1*": "l1", "*": "l1"},
            "'batch 1' has two penalties, those of 'batch\\*' and 'batch 1",
        ),
        ({"batch*": "ridge", "rna": "l1"}, "2 kernel\\(s\\) have no penalty, such as 'subject'"),
        ({"*": "ridge", "default": "l1"}, "both name the rest"),
        ({"subject": "rigde", "*": "l1"}, "Unknown penalty 'rigde'.*take 'ridge'"),
        ({"subject": 0.1, "*": "l1"}, "Unknown penalty 0.1"),
        ({1.5: "ridge", "*": "l1"}, "not by 1.5"),
        ({7: "ridge", "*": "l1"}, "No kernel is called 7"),
        ({}, "such as {'subject': 'ridge', '\\*': 'l1'}; got 0 group"),
    ],
)
def test_mistakes_are_said(mapping, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        get_regularizer(mapping, 1.0).on_kernels(NAMES)


def test_parameters_go_to_the_names_that_have_them() -> None:
    penalty = get_regularizer({"subject": "ridge", "rna": "elasticnet", "*": "lq"}, 1.0, l1_ratio=0.9, q=1.2)
    assert [getattr(part, "l1_ratio", None) for part in penalty.parts] == [None, 0.9, None]
    assert penalty.parts[2].q == 1.2
    with pytest.raises(InvalidInputError, match=r"has the parameter\(s\) p"):
        get_regularizer({"subject": "ridge", "*": "l1"}, 1.0, p=2.0)
    with pytest.raises(InvalidInputError, match="needs a strength"):
        get_regularizer({"*": "l1"})


def test_a_penalty_of_other_kernels_is_refused() -> None:
    penalty = get_regularizer({"subject": "ridge", "*": "l1"}, 1.0).on_kernels(NAMES)
    with pytest.raises(InvalidInputError, match="a penalty of 6 kernels, not of 2"):
        solve(np.stack([np.eye(3)] * 2), np.arange(3.0), loss="squared", penalty=penalty)


def test_one_group_is_the_penalty_itself() -> None:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(3, 20, 4))
    kernels, y = factors @ factors.transpose(0, 2, 1), rng.normal(size=20)
    for name in ("l1", "ridge", "simplex", "lq"):
        alone = solve(kernels, y, loss="squared", penalty=name, strength=2.0, tol=1e-9)
        whole = solve(kernels, y, loss="squared", penalty={"*": name}, strength=2.0, tol=1e-9)
        assert whole.certificate.primal == pytest.approx(alone.certificate.primal, rel=1e-8)


def test_capabilities_are_those_of_the_curve_or_common() -> None:
    elastic = PenaltyByGroup(1.0, ("a", "*"), (Ridge(1.0), BlockL1(1.0)))
    assert {Capability.MULTIPLIERS, Capability.SELECTION, Capability.SEPARABLE} <= elastic.capabilities
    assert Capability.FIXED_WEIGHTS not in elastic.capabilities
    both = PenaltyByGroup(1.0, ("a", "*"), (Ridge(1.0), Ridge(3.0)))
    assert Capability.FIXED_WEIGHTS in both.capabilities
    coupled = get_regularizer({"a": "ridge", "*": "simplex"}, 1.0)
    assert not {Capability.SEPARABLE, Capability.MULTIPLIERS} & coupled.capabilities


def test_strengths_at_which_a_path_starts() -> None:
    penalty = get_regularizer({"a": "ridge", "b": BlockL1(2.0), "*": "l1"}, 3.0)
    u = np.array([5.0, 4.0, 1.5])
    assert penalty.strength_max(u) == np.inf
    assert penalty.path_start(u) == pytest.approx(2.0)
    assert penalty.take(np.array([1, 2])).strength_max(u[1:]) == pytest.approx(2.0)
    assert get_regularizer({"a": "ridge", "*": Ridge(2.0)}, 1.0).path_start(u[:2]) == np.inf


def test_every_part_has_its_own_relative_strength() -> None:
    u, loss = np.array([3.0, 5.0, 2.0]), 2.0
    penalty = get_regularizer({0: "ridge", "*": BlockL1(0.5)}, 1.0).on_kernels("abc").relative(0.1, u, loss)
    ridge = Ridge(1.0).relative(0.1, u[:1], loss).strength
    sizes = [penalty.strength * part.strength for part in penalty.parts]
    assert sizes == pytest.approx([ridge, 0.5 * 0.1 * 5.0])


def test_it_survives_pickling_and_comparison() -> None:
    penalty = get_regularizer({"a": "ridge", "*": "l1"}, 1.0).on_kernels("abc")
    assert pickle.loads(pickle.dumps(penalty)) == penalty
    assert hash(penalty) == hash(get_regularizer({"a": "ridge", "*": "l1"}, 1.0).on_kernels("abc"))

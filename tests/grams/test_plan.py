"""The memory plan: exact sizes, its order of preference, and errors before anything is allocated."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import KFold, LeaveOneGroupOut
from tests.support.memory import peak_of
from tests.support.processes import python

from manykernels import (
    GaussianMKL,
    HierarchicalMKL,
    KernelBank,
    Linear,
    MKLRegressor,
    MKLRegressorCV,
    NonlinearMKL,
    PolynomialMKL,
)
from manykernels.estimators.selection.memory import n_folds_of
from manykernels.exceptions import InvalidInputError, MemoryBudgetError
from manykernels.grams.machine import available_memory
from manykernels.grams.plan import (
    CLEARLY,
    COPIED_BYTES,
    COUPLED_ENTRIES,
    MOST_ROOM,
    NOTICED,
    TARGET_VECTORS,
    format_bytes,
    memory_bytes,
    plan_kernels,
    plan_stack,
    stack_nbytes,
    working_nbytes,
)
from manykernels.grams.seconds import ProblemForm, bases_seconds, factored_seconds, gram_seconds
from manykernels.grams.training import plan_for

WORKING = 2**20 + 8 * (4 * 200**2 + 8 * 6000 + 16 * 200) + 8 * 8 * 200**2  # of 6000 kernels on 200 samples
STORED = WORKING - 8 * (8 - 2) * 200**2  # where matrices are stored, passes hold fewer blocks
PACKED64 = 6000 * 20100 * 8


def test_exact_bytes_of_each_kind():
    assert stack_nbytes("dense", 6000, 200, "float64") == 1_920_000_000
    assert stack_nbytes("packed", 6000, 200, "float64") == PACKED64 == 964_800_000
    assert stack_nbytes("packed", 6000, 200, "float32") == 482_400_000
    assert stack_nbytes("lazy", 6000, 200, "float64") == 0
    assert working_nbytes(6000, 200) == WORKING
    assert working_nbytes(6000, 200, stored=True) == STORED


@pytest.mark.parametrize(
    ("budget", "kind", "dtype", "nbytes"),
    [
        (STORED + PACKED64 + COPIED_BYTES, "packed", "float64", PACKED64),
        (STORED + PACKED64 + COPIED_BYTES - 1, "packed", "float32", PACKED64 // 2),
        (STORED + PACKED64 // 2, "packed", "float32", PACKED64 // 2),
        (STORED + PACKED64 // 2 - 1, "lazy", "float64", 0),
        (WORKING, "lazy", "float64", 0),
    ],
)
def test_the_plan_changes_exactly_where_the_sizes_say(budget, kind, dtype, nbytes):
    plan = plan_stack(6000, 200, memory_budget=budget)
    working = WORKING if kind == "lazy" else STORED + COPIED_BYTES * (dtype == "float64")  # steps read another copy
    assert (plan.kind, plan.dtype, plan.nbytes, plan.working_nbytes) == (kind, dtype, nbytes, working)
    assert plan.budget == budget
    assert plan.reason.lower().startswith(kind)
    assert format_bytes(budget) in plan.reason


def test_one_byte_less_than_the_working_arrays_is_refused_with_what_is_needed():
    with pytest.raises(MemoryBudgetError, match=r"6000 kernels on 200 samples cannot be fitted .* take 5\.30 MB"):
        plan_stack(6000, 200, memory_budget=WORKING - 1)


def test_many_targets_prefer_dense_until_it_no_longer_fits():
    assert plan_stack(50, 200, memory_budget="1 GB", n_targets=8).kind == "dense"
    assert plan_stack(50, 200, memory_budget="1 GB", n_targets=7).kind == "packed"
    assert plan_stack(50, 200, memory_budget=working_nbytes(50, 200, 8) + 10_000_000, n_targets=8).kind == "packed"


@pytest.mark.parametrize(("kind", "nbytes"), [("dense", 16_000_000), ("packed", 8_040_000), ("lazy", 0)])
def test_a_kind_that_was_asked_for_is_kept(kind, nbytes):
    plan = plan_stack(50, 200, memory_budget="1 GB", kind=kind)
    assert (plan.kind, plan.nbytes) == (kind, nbytes)
    assert "as asked" in plan.reason


def test_a_kind_that_was_asked_for_and_does_not_fit_is_refused():
    with pytest.raises(MemoryBudgetError, match=r'dense float32 stack of 2000 kernels .* 8\.00 GB .* kind="lazy"'):
        plan_stack(2000, 1000, memory_budget="1 GB", kind="dense")


def test_a_dtype_that_was_asked_for_is_kept():
    assert plan_stack(6000, 200, memory_budget="2 GB", dtype=np.float32).dtype == "float32"
    assert plan_stack(6000, 200, memory_budget="600 MB", dtype="float64").kind == "lazy"
    assert plan_stack(6000, 200, memory_budget="200 MB", dtype=np.float32).dtype == "float32"


@pytest.mark.parametrize(("n_kernels", "n_samples"), [(2**63, 2**40), (1, 10**12), (10**30, 2), (3, 10**30)])
def test_sizes_beyond_any_integer_type_are_refused_before_allocation(n_kernels, n_samples):
    with pytest.raises(MemoryBudgetError, match="Use fewer samples or kernels, or raise memory_budget"):
        plan_stack(n_kernels, n_samples, memory_budget="1 TB")


def test_memory_budget_error_is_also_a_memory_error():
    with pytest.raises(MemoryError, match="cannot be fitted"):
        plan_stack(10**15, 10**9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (1234, 1234),
        (np.int64(5), 5),
        ("2GB", 2 * 10**9),
        ("2 gib", 2 * 1024**3),
        ("512 MiB", 512 * 1024**2),
        ("1.5e", None),
        ("1.5 kB", 1500),
        ("700", 700),
        ("3 TB", 3 * 10**12),
    ],
)
def test_budgets_are_read(text, expected):
    if expected is None:
        with pytest.raises(InvalidInputError, match="memory_budget must be"):
            memory_bytes(text)
    else:
        assert memory_bytes(text) == expected


@pytest.mark.parametrize("budget", [0, -1, "0 GB", "GB", "two GB", "-2 GB", 1.5, True, "1 XB", float("nan"), [1]])
def test_meaningless_budgets_are_refused(budget):
    with pytest.raises(InvalidInputError, match="memory_budget must be a positive number of bytes or text"):
        memory_bytes(budget)


def test_the_default_budget_is_half_of_what_is_available():
    half = available_memory() / 2
    assert 0.5 * half < memory_bytes(None) < 2 * half


def test_a_limit_of_the_process_is_part_of_what_is_available():
    pytest.importorskip("resource")
    if not Path("/proc/self/statm").exists():
        pytest.skip("the address space of a process is known on Linux")
    program = (
        "import resource\n"
        "from manykernels.grams.machine import available_memory\n"
        "from manykernels.grams.plan import memory_bytes\n"
        "mapped = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (mapped + 50_000_000, resource.RLIM_INFINITY))\n"
        "print(available_memory(), memory_bytes(None))"
    )
    available, budget = map(int, python(program).stdout.split())
    assert 0 < budget <= 0.9 * available
    assert 40_000_000 < available <= 50_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_kernels": 0}, "n_kernels must be a positive integer, got 0"),
        ({"n_samples": -3}, "n_samples must be a positive integer, got -3"),
        ({"n_samples": 2.0}, "n_samples must be a positive integer, got 2.0"),
        ({"n_targets": True}, "n_targets must be a positive integer, got True"),
        ({"kind": "sparse"}, "kind must be one of"),
        ({"dtype": np.float16}, "dtype must be float32, float64 or None"),
        ({"dtype": "apple"}, "dtype must be float32, float64 or None"),
    ],
)
def test_meaningless_arguments_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        plan_stack(**({"n_kernels": 2, "n_samples": 3} | options))


def test_frame_is_one_row_with_everything():
    plan = plan_stack(6000, 200, memory_budget="2 GB")
    row = plan.frame().iloc[0]
    assert row["nbytes"] == PACKED64
    assert row["reason"] == plan.reason


@pytest.mark.parametrize(
    ("nbytes", "text"), [(999, "999 B"), (1000, "1.00 kB"), (99_400_000, "99.4 MB"), (10**21, "1000 EB")]
)
def test_sizes_are_written_for_people(nbytes, text):
    assert format_bytes(nbytes) == text


def test_working_arrays_are_no_larger_than_the_problem():
    assert plan_stack(56, 79, memory_budget="40 MB").kind == "packed"
    assert working_nbytes(56, 79) < 2_000_000
    assert working_nbytes(56, 3_000) == 8 * (4 * 3_000**2 + 8 * 56 + 16 * 3_000) + 65 * 2**20


def test_the_form_follows_predicted_seconds_without_a_step():
    kinds = [plan_kernels(24, n, 8, memory_budget="20 GB").kind for n in range(200, 8_000, 100)]
    change = kinds.index("factored")
    assert set(kinds[:change]) == {"packed"}
    assert set(kinds[change:]) == {"factored"}
    n = 200 + 100 * change
    assert gram_seconds(24, n) > NOTICED + CLEARLY * factored_seconds(24, n, 8) >= gram_seconds(24, n - 100)
    several = {"n_landmark": 4, "memory_budget": "20 GB"}
    assert plan_kernels(24, 4_000, 8, **several).kind == "packed"  # which end in matrices of these four
    assert plan_kernels(24, 60_000, 8, **several).kind == "factored"  # where matrices are not to be had


def test_few_support_vectors_are_worth_more_seconds_than_a_smooth_loss_has_to_lose():
    plans = [
        plan_kernels(24, 550, 8, memory_budget="4 GB", form=ProblemForm(kinked=kinked)).kind for kinked in (True, False)
    ]
    assert plans == ["packed", "factored"]
    assert plan_kernels(24, 900, 8, memory_budget="4 GB", form=ProblemForm(kinked=True)).kind == "factored"


def test_columns_of_few_values_make_factors_cheaper():
    assert factored_seconds(300, 300, 100, rank=200) < factored_seconds(300, 300, 100)
    assert plan_kernels(300, 300, 100, memory_budget="4 GB").kind == "packed"
    assert plan_kernels(300, 300, 100, memory_budget="4 GB", rank=200).kind == "factored"


def test_kernels_of_points_that_repeat_and_lines_cost_what_is_read_of_them():
    whole, few, lines = (gram_seconds(60, 800, repeats=own) for own in ((), [(60, 40)], [(60, 0)]))
    none = gram_seconds(0, 800)
    assert few - none == pytest.approx((whole - none) * (40 / 800) ** 2)
    assert 0 < lines - none < 0.1 * (whole - none)
    counted = []
    plan = partial(plan_kernels, 604, 500, 600, n_landmark=4, rank=600, memory_budget="4 GB")
    ways = tuple, lambda: counted.append(1) or [(600, 0)]
    assert [plan(repeats=way).kind for way in ways] == ["factored", "packed"]
    assert counted
    assert plan_kernels(600, 20_000, 600, memory_budget="4 TB", repeats=pytest.fail).kind == "factored"  # none counted


def test_pairs_of_landmarks_make_factors_dearer():
    few, many = (factored_seconds(30, 6_000, 8, landmarks=count) for count in (100, 400))
    assert many - factored_seconds(30, 6_000, 8) == pytest.approx(16 * (few - factored_seconds(30, 6_000, 8)))
    assert many + bases_seconds(400) > 1.0 > few  # a fit of the default bank takes one to three seconds
    assert bases_seconds(400) == pytest.approx(64 * bases_seconds(100))
    kinds = [plan_kernels(10, 600, 4, memory_budget="4 GB", landmarks=count).kind for count in (0, 300)]
    assert kinds == ["factored", "packed"]


def test_a_search_with_a_loss_with_a_kink_takes_factors_of_few_coefficients():
    sizes = {"form": ProblemForm(averages=True, kinked=True), "memory_budget": "4 GB"}
    assert plan_kernels(12, 1_546, 1, **sizes).kind == "factored"
    assert plan_kernels(12, 1_546, 1, **sizes, n_landmark=4).kind == "packed"
    assert plan_kernels(12, 1_000, 1, **sizes).kind == "packed"  # of more coefficients than a fortieth of the rows
    assert plan_kernels(12, 1_546, 4, **sizes).kind == "packed"  # whose averages matrices alone give


def test_averages_that_only_matrices_give_are_worth_seconds():
    assert [
        plan_kernels(24, 1_000, 8, form=ProblemForm(averages=each), memory_budget="4 GB").kind for each in (False, True)
    ] == [
        "factored",
        "packed",
    ]
    assert plan_kernels(24, 4_000, 8, form=ProblemForm(averages=True), memory_budget="4 GB").kind == "factored"
    several = {"n_landmark": 4, "memory_budget": "4 GB"}
    assert plan_kernels(244, 1_000, 60, **several).kind == "factored"
    assert plan_kernels(244, 1_000, 60, form=ProblemForm(averages=True), **several).kind == "packed"


@pytest.mark.parametrize(("n_targets", "squares"), [(1, 4), (3, 6)])
def test_plans_say_what_depends_on_how_many_kernels_take_part(n_targets, squares):
    plan = plan_stack(4, 2_000, memory_budget="1 GB", n_targets=n_targets)
    assert plan.varying_nbytes == 8 * (squares - 1) * 2_000**2 + 4 * 2**20  # sums of matrices, and blocks
    assert plan.least_nbytes == plan.most_nbytes - plan.varying_nbytes
    assert plan.least_nbytes < plan.expected_nbytes < plan.most_nbytes == plan.nbytes + plan.working_nbytes
    told = (plan.expected_nbytes, plan.least_nbytes, plan.most_nbytes)
    assert plan.expected == "about {}, {} to {}".format(*map(format_bytes, told))
    shares = [plan.at_fraction(fraction).likely_share for fraction in (1.0, 0.1, 0.01, 0.001, 1e-9)]
    assert shares[:2] == [0.0, 0.0]
    assert shares[0] < shares[2] < shares[3] < shares[4] == 1.0
    assert plan.at_fraction(None).likely_share == 0.5
    factors = plan_kernels(90, 50_000, 30, memory_budget="1 GB", copied=False)
    more = plan_kernels(90, 50_000, 60, memory_budget="1 GB", copied=False)
    assert factors.kind == "factored"
    assert factors.varying_nbytes < more.varying_nbytes
    assert factors.working_nbytes - factors.varying_nbytes == more.working_nbytes - more.varying_nbytes


@pytest.mark.parametrize(("n_samples", "n_kernels", "n_columns", "widths"), [(1_000, 2, 1, 2), (20_000, 6, 2, 3)])
def test_what_a_fit_of_few_kernels_holds_is_what_its_plan_says_at_least(n_samples, n_kernels, n_columns, widths):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, n_columns))
    y = np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=n_samples)
    bank = KernelBank.per_feature(widths=np.linspace(0.5, 2.0, widths).tolist(), standardize=True)
    held = {"representation": "gram" if n_samples < 2_000 else "factored"}
    model = MKLRegressor(bank, alpha="0.1*max", resources=held)
    model.fit(X, y)  # which compiles what it needs
    plan = plan_for(bank, X, memory_budget=None, **held)
    peak = peak_of(lambda: model.fit(X, y))
    most = plan.nbytes + plan.working_nbytes
    assert 0.6 * (most - plan.varying_nbytes) < peak < 1.1 * (most - plan.varying_nbytes)


@pytest.mark.parametrize(("alpha", "few"), [("auto", True), ("0.001*max", False)])
def test_a_fit_of_few_rows_on_factors_holds_about_what_its_plan_expects(alpha, few):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] ** 2 + 0.5 * rng.normal(size=500)
    bank = KernelBank.per_feature(widths=[0.3, 1.0, 3.0], standardize=True)
    model = MKLRegressor(bank, alpha=alpha, resources={"representation": "factored", "memory_budget": "1 GB"})
    plan = model.plan(X, y)
    assert (plan.expected_nbytes < 0.5 * plan.most_nbytes) == few
    model.fit(X, y)  # which compiles what it needs
    assert 0.6 < peak_of(lambda: model.fit(X, y)) / plan.expected_nbytes < 1.5


def test_plans_of_several_targets_expect_that_each_has_its_own_kernels():
    X = np.random.default_rng(0).normal(size=(500, 10))
    model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), resources={"representation": "factored"})
    plans = [model.plan(X, X[:, :count]) for count in (1, 3)]
    assert plans[1].likely_share == pytest.approx(1.0 - (1.0 - plans[0].likely_share) ** 3)
    assert model.set_params(penalty="ridge").plan(X, X[:, 0]).likely_share == 1.0  # every kernel takes part
    shares = [
        model.set_params(penalty="l1", alpha=alpha).plan(X, X[:, 0]).likely_share for alpha in ("auto", "0.2*noise")
    ]
    assert shares == [plans[0].likely_share] * 2


def test_room_for_folds_is_that_of_a_search_of_twice_what_a_fit_is_expected_to_hold():
    fit = plan_kernels(30, 500, 10, memory_budget="1 GB", representation="factored")
    assert fit.room_for_folds == fit.expected_nbytes < fit.most_nbytes
    matrices = plan_stack(30, 500, memory_budget="1 GB")
    assert matrices.room_for_folds == 2 * matrices.expected_nbytes - working_nbytes(30, 500, stored=True)
    assert plan_kernels(300, 50_000, 100, memory_budget="4 GB").room_for_folds < MOST_ROOM
    assert plan_stack(1, 2_000, memory_budget="1 GB").room_for_folds >= 0


@pytest.mark.parametrize(
    ("representation", "n_samples"), [("gram", 400), pytest.param("factored", 1_200, marks=pytest.mark.nightly)]
)
def test_a_search_holds_no_more_than_twice_what_a_fit_does(representation, n_samples):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 8))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] ** 2 + 0.5 * rng.normal(size=n_samples)
    bank = KernelBank.per_feature(widths=[0.3, 1.0, 3.0], standardize=True)
    held = {"representation": representation}
    search = MKLRegressorCV(bank, cv=5, n_alphas=4, resources=held)
    plain = MKLRegressor(bank, alpha="0.001*max", resources=held)
    for model in (search, plain):
        model.fit(X, y)  # which compiles what it needs
    assert peak_of(lambda: search.fit(X, y)) < 2 * peak_of(lambda: plain.fit(X, y))


def test_what_selects_takes_factors_beside_averages_of_matrices_where_a_fit_does():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 10))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] ** 2 + 0.5 * rng.normal(size=900)
    bank = KernelBank.per_feature(widths=[0.3, 1.0, 3.0], standardize=True)
    search = MKLRegressorCV(bank, n_alphas=4, resources={"memory_budget": "1 GB"}).fit(X, y)
    assert MKLRegressor(bank, resources={"memory_budget": "1 GB"}).plan(X, y).kind == "factored"
    assert set(search.cv_frame()["mixing"]) >= {0.0, 1.0}
    plan, peak = search.plan(X, y), peak_of(lambda: search.fit(X, y))
    assert plan.kind != "factored"
    assert 0.6 < peak / plan.expected_nbytes < 1.5
    assert peak < 2 * 30 * 720**2  # triangles of a fold in single precision


@pytest.mark.parametrize(("representation", "n_samples"), [("gram", 300), ("factored", 2_000)])
def test_a_search_says_what_it_will_hold(representation, n_samples):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 4))
    y = np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=n_samples)
    bank = KernelBank.per_feature(widths=[0.5, 1.0], standardize=True)
    search = MKLRegressorCV(bank, cv=4, resources={"representation": representation})
    plan = search.plan(X, y)
    assert not hasattr(search, "n_features_in_")
    assert (plan.n_folds, plan.n_kernels, plan.n_samples) == (4, 8, n_samples)
    assert plan.reason.endswith("In 4 folds.")
    assert plan.reason.startswith("Factors" if representation == "factored" else "Matrices in single precision")
    search.fit(X, y)  # which compiles what it needs
    peak = peak_of(lambda: search.fit(X, y))
    assert 0.7 * plan.least_nbytes < peak < 1.3 * plan.most_nbytes


def test_a_search_of_more_folds_than_memory_allows_is_refused_in_words():
    X = np.random.default_rng(0).normal(size=(2_000, 4))
    bank = KernelBank.per_feature(widths=[0.5, 1.0], standardize=True)
    fit = MKLRegressor(bank, resources={"representation": "factored"}).plan(X, X[:, 0])
    held = {"representation": "factored", "memory_budget": fit.most_nbytes}
    assert MKLRegressorCV(bank, cv=3, resources=held).plan(X, X[:, 0]).least_nbytes < fit.most_nbytes
    search = MKLRegressorCV(bank, cv=40, resources=held)
    for ask in (search.plan, search.fit):
        with pytest.raises(MemoryBudgetError, match=r"A search over 40 folds of 8 kernels .* at least, but the memory"):
            ask(X, X[:, 0])


def test_more_folds_targets_and_kernels_are_counted():
    X, y = np.zeros((3_000, 5)), np.zeros((3_000, 3))
    X[:, :] = np.arange(15_000.0).reshape(3_000, 5)
    y[::2] = 1.0
    bank = KernelBank.per_feature(widths=[1.0], standardize=True)
    held = {"representation": "factored"}
    plans = [MKLRegressorCV(bank, cv=cv, resources=held).plan(X, y[:, 0]) for cv in (3, 10, KFold(10))]
    assert plans[0].least_nbytes < plans[1].least_nbytes == plans[2].least_nbytes
    assert [n_folds_of(cv, 20, None) for cv in (None, [1, 2, 3], iter([1, 2]), LeaveOneGroupOut())] == [5, 3, 5, 5]
    fits = [MKLRegressor(bank, resources=held).plan(X, target) for target in (y[:, :1], y)]
    assert fits[1].least_nbytes - fits[0].least_nbytes == 8 * TARGET_VECTORS * 3_000 * 2
    assert MKLRegressor("precomputed").plan(np.eye(6)[None], np.arange(6.0)) is None


@pytest.mark.parametrize("kind", [GaussianMKL, HierarchicalMKL, NonlinearMKL, PolynomialMKL])
def test_estimators_that_find_their_kernels_have_no_plan(kind):
    assert not hasattr(kind(), "plan")
    with pytest.raises(AttributeError, match=f"{kind.__name__}' has no attribute 'plan'") as refused:
        kind().plan(np.zeros((5, 2)), np.arange(5.0))
    assert "learns its kernels during the fit" in str(refused.value.__cause__)


def test_losses_that_couple_samples_hold_more_matrices():
    plain, coupled = (plan_stack(30, 1_000, memory_budget="1 GB", coupled=each) for each in (False, True))
    assert coupled.most_nbytes - plain.most_nbytes == 4 * 8 * 1_000**2
    assert 0.7 < coupled.most_nbytes / 181.5e6 < 1.3  # a Cox fit of 30 kernels, traced


def test_curvatures_that_couple_samples_take_the_factors_of_all_rows():
    sizes = {"memory_budget": "1 GB", "representation": "factored", "rank": 200}
    forms = ProblemForm(), ProblemForm(coupled=True)
    plain, coupled = (plan_kernels(60, 1_500, 20, form=form, **sizes) for form in forms)
    assert coupled.least_nbytes - plain.least_nbytes == 8 * 1_500 * 260
    assert coupled.varying_nbytes == plain.varying_nbytes
    many = [plan_kernels(60, 10**6, 20, form=form, **sizes | {"memory_budget": "9 GB"}) for form in forms]
    assert many[1].least_nbytes - many[0].least_nbytes == 8 * COUPLED_ENTRIES


def test_a_plan_of_factors_counts_what_a_fit_was_measured_to_hold():
    plan = plan_kernels(300, 50_000, 100, memory_budget="4 GB")
    assert plan.kind == "factored"
    assert 0.7 < (plan.nbytes + plan.working_nbytes) / 237.2e6 < 1.3  # traced by tracemalloc, three widths a column
    wide = plan_kernels(9_990, 100_000, 370, memory_budget="4 GB", column_bytes=0)  # read in place, 273 of them active
    assert 0.7 < (wide.nbytes + wide.working_nbytes) / 777.4e6 < 1.3
    few = plan_kernels(180, 5_000, 60, memory_budget="4 GB", representation="factored", column_bytes=0)
    most = few.nbytes + few.working_nbytes  # traced with 0.1 and 0.01 of the strength of the empty model
    assert 0.5 < (most - few.varying_nbytes) / 20.2e6 < 1.0 < most / 49.3e6 < 2.2
    path = {"n_kernels": 500, "n_samples": 2_000, "n_columns": 5_000, "representation": "factored", "column_bytes": 0}
    lines = plan_kernels(**path, n_linear=5_000, copied=False, memory_budget="4 GB")  # 40 MB are rounded columns
    assert 0.7 < (lines.nbytes + lines.working_nbytes) / 65e6 < 1.3


@pytest.mark.parametrize(("order", "dtype", "held"), [("F", "f4", 0), ("F", "f8", 0), ("C", "f4", 4), ("C", "f8", 8)])
def test_columns_that_are_read_in_place_are_not_counted(order, dtype, held):
    X = np.zeros((6_000, 3), dtype=dtype, order=order)
    plans = [
        plan_for(bank, X, representation="factored", memory_budget="1 GB")
        for bank in (KernelBank.per_feature(widths=[1.0], standardize=True), KernelBank([Linear()], standardize=True))
    ]
    assert [plan.nbytes for plan in plans] == [held * X.size, 8 * X.size]


def test_outputs_one_after_the_other_read_matrices_as_often():
    assert gram_seconds(44, 600, ProblemForm(n_targets=10)) > 5 * gram_seconds(44, 600)
    sizes = {"n_kernels": 44, "n_samples": 600, "n_columns": 11, "memory_budget": "4 GB"}
    own, shared = ProblemForm(n_targets=10), ProblemForm(n_targets=10, shared=True)
    assert plan_kernels(**sizes, form=own).kind == "factored"
    assert plan_kernels(**sizes, form=shared).kind == "factored"
    assert plan_kernels(**sizes | {"n_kernels": 120, "n_columns": 30}, form=shared).kind == "dense"
    small = sizes | {"n_samples": 200}
    assert [plan_kernels(**small, form=form).kind for form in (own, shared)] == ["packed", "dense"]

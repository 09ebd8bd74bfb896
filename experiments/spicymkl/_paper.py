"""Table 4 of the publication, as printed.

T. Suzuki and R. Tomioka, "SpicyMKL: a fast algorithm for multiple kernel learning with thousands of kernels", Machine
Learning 85 (2011), Table 4: "Average number of outer iterations. Average number of SVM evaluations is also shown in the
brace for SimpleMKL." For the other solvers that call a support vector machine both numbers are the same.
"""

from __future__ import annotations

CONSTANTS = (0.005, 0.05, 0.5)
COLUMNS = ("spicy_hinge", "spicy_logistic", "simplemkl", "simplemkl_machines", "hessianmkl", "levelmkl", "silp")

TABLE_4: dict[tuple[str, float], tuple[float, ...]] = {
    ("liver", 0.005): (22.6, 20.1, 200.3, 3770.2, 13.2, 171.6, 718.8),
    ("liver", 0.05): (14.1, 14.5, 222.2, 4800.0, 11.8, 138.0, 517.2),
    ("liver", 0.5): (6.7, 3.3, 134.2, 2200.5, 9.4, 50.1, 237.8),
    ("pima", 0.005): (31.5, 21.5, 76.2, 1488.9, 15.4, 290.7, 1020.1),
    ("pima", 0.05): (13.6, 13.9, 74.9, 1511.7, 12.2, 197.9, 727.1),
    ("pima", 0.5): (7.9, 3.2, 24.6, 470.9, 10.2, 30.9, 258.0),
    ("ionosphere", 0.005): (38.0, 24.6, 184.5, 2864.1, 11.3, 100.9, 1810.3),
    ("ionosphere", 0.05): (18.3, 17.1, 188.6, 2983.1, 10.3, 135.6, 1580.1),
    ("ionosphere", 0.5): (7.8, 5.4, 57.8, 1374.4, 14.4, 65.5, 972.0),
    ("wpbc", 0.005): (24.0, 24.4, 45.4, 1014.2, 11.6, 61.3, 683.6),
    ("wpbc", 0.05): (13.2, 14.4, 49.1, 1134.7, 10.7, 60.8, 514.2),
    ("wpbc", 0.5): (6.0, 2.0, 40.9, 964.4, 7.2, 55.4, 367.0),
    ("sonar", 0.005): (35.2, 27.2, 158.3, 2736.8, 10.3, 193.0, 4484.6),
    ("sonar", 0.05): (16.6, 16.8, 204.8, 3535.3, 10.6, 194.2, 4356.4),
    ("sonar", 0.5): (7.7, 4.2, 173.3, 3511.4, 19.6, 154.4, 3862.3),
}

DATA_SETS = tuple(dict.fromkeys(name for name, _ in TABLE_4))


def printed(data: str, constant: float, column: str) -> float:
    """Return one number of Table 4; NaN if the table has no such row or column.

    Parameters
    ----------
    data : str
        One of ``DATA_SETS``.
    constant : float
        ``C``.
    column : str
        One of ``COLUMNS``.
    """
    row = TABLE_4.get((data, constant))
    return row[COLUMNS.index(column)] if row is not None and column in COLUMNS else float("nan")

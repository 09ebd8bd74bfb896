"""Programs as ONNX graphs of double precision, for onnxruntime without the library."""

import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from manykernels.exceptions import IncompatibleError, optional_module
from manykernels.inspection.export.evaluate import UNSEEN
from manykernels.inspection.export.program import Axis, KernelTerm, Program, Term, written_forms
from manykernels.validation.arrays import Array

OPSET, MACHINE_LEARNING_OPSET, IR_VERSION = 17, 3, 8  # of 2022: what runtimes of all years since then read
RESERVED = re.compile(r"(scores|prediction|probabilities|X|(value|constant|ordered|places)_\d+)?", re.IGNORECASE)


class Graph:
    """Nodes and constants under construction, with unique names."""

    def __init__(self, helper: ModuleType, numpy_helper: ModuleType) -> None:
        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[Any, str] = {}

    def constant(self, values: ArrayLike, dtype: DTypeLike = np.float64) -> str:
        """Return the name of a constant."""
        array = np.ascontiguousarray(values, dtype=dtype).reshape(np.shape(values))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = f"constant_{len(self.constants)}"
            self.constants.append(self.numpy_helper.from_array(array, self._known[key]))
        return self._known[key]

    def texts(self, values: Sequence[str]) -> str:
        """Return the name of a constant of texts."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.helper.make_tensor(name, 8, [len(values)], [each.encode() for each in values]))
        return name

    def __call__(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of the output."""
        name = f"value_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operation, list(inputs), [name], domain=domain, **attributes))
        return name

    def output(self, name: str, value: str) -> None:
        """Call a value by the name of an output."""
        self.nodes.append(self.helper.make_node("Identity", [value], [name]))

    def sum(self, parts: Sequence[str]) -> str:
        """Return a sum of values of equal shape."""
        return parts[0] if len(parts) == 1 else self("Sum", *parts)


def _check_texts(program: Program) -> None:
    """Reject texts that ONNX cannot hold."""
    levels = [level for part in program.parts for axis in part.axes for level in axis.levels]
    for text in (*levels, *(program.classes or ())):
        if re.search("[\ud800-\udfff]", str(text)):
            raise IncompatibleError(f"{text!r} holds half of a surrogate pair, which ONNX cannot hold; export to .py.")
    for axis in (axis for part in program.parts for axis in part.axes if program.masks and "" in axis.levels):
        raise IncompatibleError(
            f"Column {axis.column!r} has the empty text as a category beside missing values, and ONNX has no other "
            "text for these; export to .py or .sql, or rename the category."
        )


def render_onnx(program: Program, about: Sequence[str]) -> bytes:
    """Return a program as an ONNX model.

    A model of a table takes an input per column, (n, 1): doubles, or texts for categories (the empty text is a missing
    value), named by `input_names`. A model of an array, or of a table without names and texts, takes ``X``, (n, p)
    doubles. NaN is a missing number. The result has ``scores`` (n, K), and ``prediction`` (n,) or (n, K), of
    classifiers with probabilities also ``probabilities``.
    """
    onnx = optional_module("onnx", "Exporting to ONNX needs onnx.", "onnx")
    helper, kinds, g = onnx.helper, onnx.TensorProto, Graph(onnx.helper, onnx.numpy_helper)
    _check_texts(program)
    renamed = {column: given for column, given in input_names(program).items() if column != given}
    if not takes_array(program):
        about = [*about, *(f"Input {given} is column {column!r}." for column, given in renamed.items())]
    inputs, columns = _inputs(g, program, helper, kinds)
    columns = columns | {name: _compressed(g, columns[name], *own) for name, own in program.tails.items()}
    n_targets = len(program.intercept)
    curves = [term for term in program.terms if _is_curve(term)]
    parts = _curves(g, curves, columns)  # all at once
    parts += [_term(g, term, columns) for term in program.terms if term not in curves]
    parts += [_kernel(g, part, columns) for part in program.kernels]
    if parts:
        total = g("Add", g.sum(parts), g.constant(program.intercept[None]))
    else:
        first = inputs[0].name
        rows = g("Gather", g("Shape", first), g.constant([0], np.int64))
        shape = g("Concat", rows, g.constant([n_targets], np.int64), axis=0)
        total = g("Expand", g.constant(program.intercept[None]), shape)
    g.output("scores", total)
    outputs = [helper.make_tensor_value_info("scores", kinds.DOUBLE, [None, n_targets])]
    outputs += _predictions(g, program, total, helper, kinds)
    graph = helper.make_graph(g.nodes, "manykernels", inputs, outputs, g.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", MACHINE_LEARNING_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="manykernels", doc_string="\n".join(about))
    model.ir_version = IR_VERSION
    return bytes(model.SerializeToString())


def _inputs(g: Graph, program: Program, helper: ModuleType, kinds: Any) -> tuple[list[Any], dict[str, str]]:
    """Return the inputs of the graph, and the values of the columns in the nodes, (n, 1) each."""
    if takes_array(program):
        info = helper.make_tensor_value_info("X", kinds.DOUBLE, [None, len(program.features)])
        places = zip(program.columns, program.positions, strict=True)
        values = {name: g("Gather", "X", g.constant([at], np.int64), axis=1) for name, at in places}
        return [info], values
    names, texts = input_names(program), _texts(program)
    infos = [
        helper.make_tensor_value_info(given, kinds.STRING if name in texts else kinds.DOUBLE, [None, 1])
        for name, given in names.items()
    ]
    return infos or [helper.make_tensor_value_info("unused", kinds.DOUBLE, [None, 1])], names


def _compressed(g: Graph, x: str, middle: float, unit: float) -> str:
    """Return a column with heavy tails in units from its middle, compressed beyond the first unit."""
    places = g("Div", g("Sub", x, g.constant([[middle]])), g.constant([[unit]]))
    sizes = g("Abs", places)
    outer = g("Sub", g.constant([[3.0]]), g("Div", g.constant([[4.0]]), g("Add", g.constant([[1.0]]), sizes)))
    return g("Where", g("Greater", sizes, g.constant([[1.0]])), g("Mul", g("Sign", places), outer), places)


def takes_array(program: Program) -> bool:
    """Return whether the graph takes all columns as a single array."""
    return not (program.named or _texts(program))


def input_names(program: Program) -> dict[str, str]:
    """Return the input of every column: the name, or the place as ``x3`` for a name invalid in a graph.

    Invalid are empty names, names of outputs and nodes, and names with control characters.
    """
    names: dict[str, str] = {}
    for position, column in zip(program.positions, program.columns, strict=True):
        given = column
        if RESERVED.fullmatch(column) or not column.isprintable():
            given = f"x{position}"
            while given in program.features:
                given += "_"
        names[column] = given
    return names


def _texts(program: Program) -> set[str]:
    """Return the text columns."""
    return {axis.column for part in program.parts for axis in part.axes if axis.text}


def _is_curve(term: Term) -> bool:
    """Return whether a term is a function of a single nonperiodic numeric column."""
    axis = term.axes[0]
    return len(term.axes) == 1 and axis.kind == "pieces" and not (axis.period or axis.edges)


def _curves(g: Graph, terms: Sequence[Term], columns: dict[str, str]) -> list[str]:
    """Return the sum of all curves, (n, K), by a look-up per coefficient."""
    if not terms:
        return []
    axes = [term.axes[0] for term in terms]
    values = [columns[axis.column] for axis in axes]
    x = values[0] if len(values) == 1 else g("Concat", *values, axis=1)
    cell, inside = _pieces(g, x, axes)
    offsets = np.cumsum([0, *(axis.n_cells for axis in axes[:-1])])
    flat = g("Add", cell, g.constant(offsets[None], np.int64))
    table = np.concatenate([term.coefficients for term in terms])  # (cells, powers, K)
    sums = []
    for k in range(table.shape[2]):
        value = g("Gather", g.constant(table[:, -1, k]), flat)
        for a in range(table.shape[1] - 2, -1, -1):
            value = g("Add", g("Mul", value, inside), g("Gather", g.constant(table[:, a, k]), flat))
        sums.append(g("ReduceSum", value, g.constant([1], np.int64), keepdims=1))
    return [sums[0] if len(sums) == 1 else g("Concat", *sums, axis=1)]


def _pieces(g: Graph, x: str, axes: Sequence[Axis]) -> tuple[str, str]:
    """Return cells and places in cells of columns (n, C) on pieces."""
    sizes = np.array([axis.n_pieces for axis in axes], dtype=np.float64)
    lows = np.array([axis.low for axis in axes])
    steps = (np.array([axis.high for axis in axes]) - lows) / sizes
    gaps = g("IsNaN", x)
    scaled = g("Div", g("Sub", x, g.constant(lows[None])), g.constant(steps[None]))
    scaled = g("Where", gaps, g.constant([[0.0]]), scaled)
    if any(axis.period for axis in axes):
        turns = g("Floor", g("Div", scaled, g.constant(sizes[None])))
        scaled = g("Sub", scaled, g("Mul", turns, g.constant(sizes[None])))
    below, above = g("Less", scaled, g.constant([[0.0]])), g("Greater", scaled, g.constant(sizes[None]))
    piece = g("Floor", g("Min", g("Max", scaled, g.constant([[0.0]])), g.constant(sizes[None] - 1)))
    start = g("Where", below, g.constant([[0.0]]), g("Where", above, g.constant(sizes[None]), piece))
    cell = g("Where", above, g.constant(sizes[None] + 1), piece)
    cell = g("Where", below, g.constant(sizes[None]), cell)
    cell = g("Where", gaps, g.constant(sizes[None] + 2), cell)
    inside = g("Where", gaps, g.constant([[0.0]]), g("Sub", scaled, start))
    return g("Cast", cell, to=7), inside


def _find_pieces(g: Graph, x: str, edges: Array) -> tuple[str, str]:
    """Return pieces between edges and places in pieces of a column (n, 1), by bisection."""
    n, gaps = len(edges) - 1, g("IsNaN", x)
    clean = g("Where", gaps, g.constant([[edges[0]]]), x)
    step = 1 << max(n - 1, 1).bit_length()
    starts = g.constant(np.concatenate([edges[:-1], np.full(2 * step - n, np.inf)]))
    piece = g("Mul", g("Cast", gaps, to=7), g.constant([[0]], np.int64))
    while step := step // 2:
        later = g("Add", piece, g.constant([[step]], np.int64))
        piece = g("Where", g("GreaterOrEqual", clean, g("Gather", starts, later)), later, piece)
    below, above = g("Less", clean, g.constant([[edges[0]]])), g("Greater", clean, g.constant([[edges[n]]]))
    last = g.constant([[n - 1]], np.int64)
    piece = g("Where", g("Greater", piece, last), last, piece)  # of an infinite number
    beyond = g.constant([[(edges[n] - edges[0]) / n]])
    start = g("Where", above, g.constant([[edges[n]]]), g("Gather", g.constant(edges[:-1]), piece))
    length = g("Where", g("Or", below, above), beyond, g("Gather", g.constant(np.diff(edges)), piece))
    cell = g("Where", above, g.constant([[n + 1]], np.int64), piece)
    cell = g("Where", below, g.constant([[n]], np.int64), cell)
    cell = g("Where", gaps, g.constant([[n + 2]], np.int64), cell)
    return cell, g("Where", gaps, g.constant([[0.0]]), g("Div", g("Sub", clean, start), length))


def _cell(g: Graph, axis: Axis, x: str) -> tuple[str, str | None]:
    """Return the cell of a single column, (n, 1) int64, and the place of a row in a piece."""
    if axis.kind == "pieces":
        return _find_pieces(g, x, np.array(axis.edges)) if axis.edges else _pieces(g, x, [axis])
    n = axis.n_cells
    if axis.text:
        keys = written_forms(axis.levels)
        encoded = g(
            "LabelEncoder", x, domain="ai.onnx.ml", keys_strings=[*keys, *([] if "" in keys else [""])],
            values_int64s=[*keys.values(), *([] if "" in keys else [n - 1])], default_int64=n - 2,
        )  # fmt: skip
        return encoded, None
    gaps = g("IsNaN", x)
    if axis.kind in ("steps", "boolean"):
        edges = axis.edges if axis.kind == "steps" else (0.5,)
        reached = g("Cast", g("GreaterOrEqual", x, g.constant(np.array([edges]))), to=7)
        cell = g("ReduceSum", reached, g.constant([1], np.int64), keepdims=1)
    elif axis.levels:
        levels = np.array([[float(level) for level in axis.levels]])
        equal = g("Cast", g("Equal", x, g.constant(levels)), to=7)
        places = g("Mul", equal, g.constant(np.arange(n - 2)[None] - (n - 2), np.int64))
        cell = g("Add", g("ReduceSum", places, g.constant([1], np.int64), keepdims=1), g.constant([[n - 2]], np.int64))
    else:
        cell = g("Cast", gaps, to=7)
    return g("Where", gaps, g.constant([[n - 1]], np.int64), cell), None


def _term(g: Graph, term: Term, columns: dict[str, str]) -> str:
    """Return the contribution of any term to the scores, (n, K)."""
    flat = ""
    powers: list[str | None] = [None]
    for axis in term.axes:
        cell, inside = _cell(g, axis, columns[axis.column])
        flat = cell if not flat else g("Add", g("Mul", flat, g.constant([[axis.n_cells]], np.int64)), cell)
        if inside is None:
            continue
        monomials: list[str | None] = [None, inside]
        while len(monomials) < axis.degree:
            monomials.append(g("Mul", str(monomials[-1]), inside))
        powers = [b if a is None else a if b is None else g("Mul", a, b) for a in powers for b in monomials]
    flat = g("Squeeze", flat, g.constant([1], np.int64))
    parts = []
    for place, power in enumerate(powers):
        values = g("Gather", g.constant(term.coefficients[:, place]), flat)
        parts.append(values if power is None else g("Mul", values, power))
    return g.sum(parts)


def _kernel(g: Graph, part: KernelTerm, columns: dict[str, str]) -> str:
    """Return the contribution of a kernel of several columns to the scores, (n, K)."""
    values = []
    for axis, codes in zip(part.axes, part.codes, strict=True):
        x = columns[axis.column]
        if codes is not None:
            cell, _ = _cell(g, axis, x)
            x = g("Gather", g.constant([*codes, UNSEEN, np.nan]), cell)
        values.append(x)
    x = values[0] if len(values) == 1 else g("Concat", *values, axis=1)
    points = g("Div", g("Sub", x, g.constant(part.means[None])), g.constant(part.scales[None]))
    gaps = g("IsNaN", points)
    clean = g("Where", gaps, g.constant([[0.0]]), points)
    matrix = _matrix(g, part.kernel, clean, part.points)
    scores = g("Add", g("MatMul", matrix, g.constant(part.coefficients)), g.constant(part.offsets[None]))
    lost = g("ReduceMax", g("Cast", gaps, to=11), axes=[1], keepdims=1)
    instead = 0.0 if part.masks else np.nan
    return g("Where", g("Greater", lost, g.constant([[0.5]])), g.constant([[instead]]), scores)


def _matrix(g: Graph, kernel: dict[str, Any], x: str, points: Array) -> str:
    """Return kernel values between rows and points, (n, r)."""
    name = kernel["kernel"]
    if "columns" in kernel:
        x = g("Gather", x, g.constant(kernel["columns"], np.int64), axis=1)
        points = points[:, kernel["columns"]]
    if "units" in kernel:
        units = np.array([kernel["units"]])
        x, points = g("Mul", x, g.constant(units)), points * units
    if name in ("sum", "product"):
        value = _matrix(g, kernel["parts"][0], x, points)
        for part in kernel["parts"][1:]:
            value = g("Add" if name == "sum" else "Mul", value, _matrix(g, part, x, points))
        return g("Mul", value, g.constant(kernel["factor"])) if "factor" in kernel else value
    if name == "polynomial":
        inner = g("MatMul", x, g.constant(points.T))
        base = g("Add", g("Mul", inner, g.constant(float(kernel["scale"]))), g.constant(float(kernel["offset"])))
        value = base
        for _ in range(int(kernel["degree"]) - 1):
            value = g("Mul", value, base)
        return value
    if name == "power":
        degree, center, scale = int(kernel["degree"]), float(kernel["center"]), float(kernel["scale"])
        value = x
        for _ in range(degree - 1):
            value = g("Mul", value, x)
        features = g("Div", g("Sub", value, g.constant(center)), g.constant(scale))
        return g("MatMul", features, g.constant(((points**degree - center) / scale).T))
    return _gaussian(g, x, points) if name == "gaussian" else _kernel_of_differences(g, kernel, x, points)


def _gaussian(g: Graph, x: str, points: Array) -> str:
    """Return a Gaussian kernel of unit width, (n, r)."""
    middle = points.mean(axis=0)
    x, points = g("Sub", x, g.constant(middle[None])), points - middle
    inner, row_squares = g("MatMul", x, g.constant(points.T)), g("ReduceSum", g("Mul", x, x), g.constant([1], np.int64))
    sums = g("Add", row_squares, g.constant((points**2).sum(axis=1)[None]))
    squares = g("Max", g("Sub", sums, g("Mul", inner, g.constant(2.0))), g.constant([[0.0]]))
    return g("Exp", g("Mul", squares, g.constant(-0.5)))


def _kernel_of_differences(g: Graph, kernel: dict[str, Any], x: str, points: Array) -> str:
    """Return a kernel of differences in every column, (n, r): Laplacian, Matern, periodic, overlap or ordinal."""
    name, parts = kernel["kernel"], []
    for j, column in enumerate(points.T):
        own = g("Gather", x, g.constant([j], np.int64), axis=1)
        apart = g("Abs", g("Sub", own, g.constant(column[None])))
        if name == "laplacian":
            parts.append(g("Neg", apart))
        elif name == "matern":
            parts.append(g("Mul", apart, apart))
        elif name == "periodic":  # a whole number of periods less, since sines of large numbers differ by runtime
            turns = g("Div", apart, g.constant(float(kernel["period"])))
            sine = g("Sin", g("Mul", g("Sub", turns, g("Floor", turns)), g.constant(np.pi)))
            parts.append(g("Mul", g("Mul", sine, sine), g.constant(-2.0 / kernel["width"] ** 2)))
        else:
            equal = g("Cast", g("Equal", apart, g.constant(0.0)), to=11)
            near = equal if name == "overlap" else g("Max", g("Sub", g.constant(1.0), apart), g.constant(0.0))
            seen = g("Cast", g("Greater", own, g.constant(UNSEEN)), to=11)
            parts.append(g("Mul", g("Mul", near, seen), g.constant(1.0 / points.shape[1])))
    total = g.sum(parts)
    if name != "matern":
        return g("Exp", total) if name in ("laplacian", "periodic") else total
    r = g("Min", g("Sqrt", g("Mul", total, g.constant(2.0 * kernel["nu"]))), g.constant([[1e3]]))
    value = g("Exp", g("Neg", r))
    if kernel["nu"] == 0.5:
        return value
    factor = g("Add", r, g.constant(1.0))
    if kernel["nu"] == 2.5:
        factor = g("Add", factor, g("Div", g("Mul", r, r), g.constant(3.0)))
    return g("Mul", value, factor)


def _predictions(g: Graph, program: Program, scores: str, helper: ModuleType, kinds: Any) -> list[Any]:
    """Add the predictions to the graph, and return the outputs."""
    if program.classes is None:
        value = g("Exp", scores) if program.link == "exp" else scores
        if program.link == "sort":
            n = len(program.intercept)
            ordered, places = f"ordered_{len(g.nodes)}", f"places_{len(g.nodes)}"
            count = g.constant([n], np.int64)
            g.nodes.append(helper.make_node("TopK", [value, count], [ordered, places], axis=1, largest=0, sorted=1))
            value = ordered
        shape = [None] if program.single else [None, len(program.intercept)]
        g.output("prediction", g("Squeeze", value, g.constant([1], np.int64)) if program.single else value)
        return [helper.make_tensor_value_info("prediction", kinds.DOUBLE, shape)]
    if program.predicts_labels:
        shape = [None, len(program.intercept)]
        g.output("prediction", g("Cast", g("Greater", scores, g.constant(0.0)), to=7))
        outputs = [helper.make_tensor_value_info("prediction", kinds.INT64, shape)]
        if program.probabilities:
            g.output("probabilities", g("Sigmoid", scores))
            outputs.append(helper.make_tensor_value_info("probabilities", kinds.DOUBLE, shape))
        return outputs
    return _class_predictions(g, program, program.classes, scores, helper, kinds)


def _class_predictions(
    g: Graph, program: Program, classes: Sequence[Any], scores: str, helper: ModuleType, kinds: Any
) -> list[Any]:
    """Add the class of the largest score and the probabilities to the graph, and return the outputs."""
    if program.single:
        first = g("Squeeze", scores, g.constant([1], np.int64))
        place = g("Cast", g("Greater", first, g.constant(0.0)), to=7)
    else:
        place = g("ArgMax", scores, axis=1, keepdims=0)
    texts = not all(isinstance(label, (int, np.integer)) for label in classes)
    labels = g.texts([str(label) for label in classes]) if texts else g.constant(classes, dtype=np.int64)
    g.output("prediction", g("Gather", labels, place))
    outputs = [helper.make_tensor_value_info("prediction", kinds.STRING if texts else kinds.INT64, [None])]
    if program.probabilities:
        if program.probabilities == "sigmoid":
            shares = g("Concat", g("Sigmoid", g("Neg", scores)), g("Sigmoid", scores), axis=1)
        elif program.probabilities == "softmax":
            shares = g("Softmax", scores, axis=1)
        else:
            each = g("Sigmoid", scores)
            shares = g("Div", each, g("ReduceSum", each, g.constant([1], np.int64), keepdims=1))
        g.output("probabilities", shares)
        outputs.append(helper.make_tensor_value_info("probabilities", kinds.DOUBLE, [None, len(classes)]))
    return outputs

"""The predictor as an ONNX graph of opset 18, whose sets and intervals are equal to the last bit.

(p + 1) - 1 in float64 rounds a probability to a multiple of 2^-52, half to even, as `kernels` do;
sums of such numbers are exact in any order, and TopK breaks ties by the smaller index. All else is
the formula of the score, operation by operation.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.scores import IntervalScore, LabelScore
from fedwqcp.scores.aps import APS
from fedwqcp.scores.cqr import CQR
from fedwqcp.scores.lac import LAC
from fedwqcp.scores.mask import BINS, Mask
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.scores.normalized_residual import NormalizedResidual
from fedwqcp.scores.ordinal_aps import OrdinalAPS
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS

if TYPE_CHECKING:
    from fedwqcp.serve.predictor import Predictor

OPSET, IR = 18, 8
OLDEST = 13
"""From this opset on the graph means the same."""
U = 2.0**-53


def graph(predictor: Predictor, alpha: float | None, allow_empty: bool) -> _Graph:
    """Return the graph of one level."""
    score, q = predictor.score_object, predictor.thresholds(alpha)
    width = score.width if isinstance(score, IntervalScore) else predictor.n_classes or "C"
    shape = ["n"] if width == 1 else ["n", width]
    shape = ["pixels"] if isinstance(score, Mask) else shape
    g = _Graph(shape, predictor.n_classes, _facts(predictor, alpha))
    if isinstance(score, LabelScore) and score.randomized:
        g.takes("u", "float64", ["n"])
    if predictor.by == "group":
        if isinstance(score, Mask):
            raise InputError("has no graph of masks by group", field="by")
        g.takes("group", "int64", ["n", "k"])
        table = g.const(np.vstack([q, np.full((1, q.shape[1]), -inf)]))  # place -1 finds the last
        every = g.add("Gather", table, "group", axis=0)  # (n, k, columns)
        threshold = g.extreme(every, axis=1)  # (n, columns)
    else:
        threshold = g.const(q)  # (1, columns)
    if isinstance(score, IntervalScore):
        lower, upper = _intervals(g, score, threshold, q.shape[1])
        g.gives(lower, "lower", "float64", ["n"])
        g.gives(upper, "upper", "float64", ["n"])
    elif isinstance(score, Mask):
        g.gives(_mask(g, q), "mask", "bool", shape)
    else:
        rule = predictor.rule
        mask = _sets(g, score, threshold, rule if rule != "leq" or allow_empty else "leq_top1")
        size = g.add("ReduceSum", g.cast(mask, "int64"), g.ints(1), keepdims=0)
        g.gives(mask, "set", "bool", shape)
        g.gives(size, "size", "int64", ["n"])
    return g


def _facts(predictor: Predictor, alpha: float | None) -> dict[str, str]:
    """Return what the file says of itself."""
    facts = {
        "agent": predictor.agent or "",
        "alpha": repr(predictor.level(alpha).alpha),
        "key": predictor.key,
        "promise": predictor.promise,
        "classes": "\n".join(predictor.classes),
        **predictor.provenance,
        "calibration_points": "",  # of few people, perhaps: they stay at the site
    }
    return {name: text for name, text in facts.items() if text}


class _Graph:
    """Nodes and constants in the order in which they are added."""

    def __init__(
        self, shape: Sequence[int | str], n_classes: int | None, facts: Mapping[str, str]
    ) -> None:
        try:
            from onnx import helper, numpy_helper
        except ImportError:
            raise MissingExtraError("an ONNX graph", "onnx") from None
        self._helper, self._numpy = helper, numpy_helper
        self.shape, self.n_classes, self.facts = shape, n_classes, facts
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        return self.add_all(op, 1, *inputs, **attributes)[0]

    def add_all(self, op: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        names = [f"sets_{op}_{len(self.nodes)}_{index}" for index in range(count)]
        self.nodes.append(self._helper.make_node(op, inputs, names, **attributes))
        return names

    def const(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> str:
        """Add a constant."""
        name = f"sets_constant_{len(self.constants)}"
        self.constants.append(self._numpy.from_array(np.array(value, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        """Add a list of integers, such as axes."""
        return self.const(values, np.int64)

    def cast(self, value: str, dtype: str = "float64") -> str:
        """Convert a tensor."""
        return self.add("Cast", value, to=self._kind(dtype))

    def extreme(self, values: str, axis: int, largest: int = 1) -> str:
        """Return the largest or smallest along an axis; ReduceMax differs between opsets."""
        extremes = self.add_all("TopK", 2, values, self.ints(1), axis=axis, largest=largest)[0]
        return self.add("Squeeze", extremes, self.ints(axis))

    def used(self) -> list[Any]:
        """Return the constants that a node reads."""
        read = {name for node in self.nodes for name in node.input}
        return [constant for constant in self.constants if constant.name in read]

    def tensor(self, name: str, dtype: str, shape: Sequence[int | str]) -> Any:
        """Describe an input or output."""
        return self._helper.make_tensor_value_info(name, self._kind(dtype), shape)

    def takes(self, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        """Add an input."""
        self.inputs.append(self.tensor(name, dtype, shape))

    def gives(self, value: str, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        """Add an output."""
        self.nodes.append(self._helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.tensor(name, dtype, shape))

    def alone(self, dtype: str) -> Any:
        """Return the graph as a model whose input is what a model puts out."""
        make, first = self._helper, self.tensor("outputs", dtype, self.shape)
        graph = make.make_graph(
            self.nodes, "fedwqcp", [first, *self.inputs], self.outputs, self.used()
        )
        opsets = [make.make_opsetid("", OPSET)]
        model = make.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="fedwqcp")
        return self._with_facts(model)

    def behind(self, path: Path, output: str | None) -> Any:
        """Return a model's graph whose probabilities go on into that of the sets."""
        from onnx import TensorProto, load

        try:
            model = load(path)
        except Exception as error:  # protobuf's, of a file that holds no model
            raise InputError(f"{path} cannot be read as ONNX: {error}", field="model") from None
        if not all(entry.version >= OLDEST for entry in model.opset_import if not entry.domain):
            raise InputError(f"must be of opset {OLDEST} or later", field="model")
        floats = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16
        shapes = {
            tensor.name: tensor.type.tensor_type.shape.dim
            for tensor in model.graph.output
            if tensor.type.tensor_type.elem_type in floats
        }
        if output is None and len(shapes) == 1:
            (output,) = shapes
        if output not in shapes:
            raise InputError(f"must be one of {', '.join(shapes)}", field="output")
        for tensor in self.outputs:
            if tensor.name == "mask":  # as the model's map
                del tensor.type.tensor_type.shape.dim[:]
                tensor.type.tensor_type.shape.dim.extend(shapes[output])
        columns = [dim.dim_value for dim in shapes[output]][1:]
        if self.n_classes is not None and columns not in ([self.n_classes], [0]):  # 0: any number
            raise InputError(f"must have {self.n_classes} columns, got {columns}", field="output")
        taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
        names = {tensor.name for tensor in (*self.inputs, *self.outputs)}
        if taken & names:
            raise InputError(f"the model has a {min(taken & names)} of its own", field="model")
        for node in self.nodes:
            node.input[:] = [output if name == "outputs" else name for name in node.input]
        model.graph.node.extend(self.nodes)
        model.graph.initializer.extend(self.used())
        model.graph.input.extend(self.inputs)
        model.graph.output.extend(self.outputs)
        return self._with_facts(model)

    def _with_facts(self, model: Any) -> Any:
        for name, text in self.facts.items():
            model.metadata_props.add(key=f"fedwqcp.{name}", value=text)  # a model may have its own
        return model

    def _kind(self, dtype: str) -> int:
        return int(self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


class _Place(NamedTuple):
    """Where labels stand: as `kernels.Ranked`, all of shape (n, C) or broadcast to it."""

    before: str
    upto: str
    rank: str
    top: str


# Sets ---------------------------------------------------------------------------------------------


def _mask(g: _Graph, q: npt.NDArray[np.float64]) -> str:
    """Return the mask of a probability map of any shape."""
    steps = g.add("Mul", g.add("Sub", g.const(1.0), g.cast("outputs")), g.const(BINS))
    return g.add("LessOrEqual", g.add("Div", g.add("Ceil", steps), g.const(BINS)), g.const(q[0, 0]))


def _sets(g: _Graph, score: Any, q: str, rule: str) -> str:
    """Return the mask of the sets."""
    p = g.cast("outputs")
    one = g.const(1.0)
    if isinstance(score, LAC | MultiLabel):
        mask = g.add("LessOrEqual", g.add("Max", g.const(0.0), g.add("Sub", one, p)), q)
        if rule == "leq":
            return mask
        top = g.add("ArgMax", p, axis=1, keepdims=1)
        return g.add("Or", mask, g.add("Equal", top, _labels(g, p)))
    if not isinstance(score, APS | RAPS | SAPS | OrdinalAPS):
        raise InputError("has no ONNX graph", field="score")
    if isinstance(score, OrdinalAPS):
        return _within(g, score, _grown(g, _rounded(g, p)), q, rule)
    single = isinstance(score, APS) and score.precision == "float32"
    values = g.cast("outputs", "float32") if single else g.add("Min", _rounded(g, p), one)
    labels = g.add("Slice", g.add("Shape", p), g.ints(1), g.ints(2))
    ordered, order = g.add_all("TopK", 2, values, labels, axis=1)
    ranks = _summed(g, ordered) if single else _capped(g, ordered)
    by_label = g.add("GatherElements", g.add("Expand", q, g.add("Shape", p)), order, axis=1)
    mask = _within(g, score, ranks, by_label, rule)
    nobody = g.cast(g.add("Mul", p, g.const(0.0)), "bool")  # False everywhere
    return g.add("ScatterElements", nobody, order, mask, axis=1)


def _within(g: _Graph, score: Any, ranks: _Place, q: str, rule: str) -> str:
    """Tell which labels belong to their sets."""
    u = g.add("Unsqueeze", "u", g.ints(1)) if score.randomized else None
    mask = g.add("LessOrEqual", _formula(g, score, ranks, u), q)
    if rule != "leq":
        mask = g.add("Or", mask, g.add("Equal", ranks.rank, g.const(1.0)))
    if rule == "until":
        rank = g.add("Sub", ranks.rank, g.const(1.0))
        previous = _Place(ranks.before, ranks.before, rank, ranks.top)
        mask = g.add("Or", mask, g.add("Less", _formula(g, score, previous, None), q))
    return mask


def _formula(g: _Graph, score: Any, ranks: _Place, u: str | None) -> str:
    """Return the score of labels at their places; u is 1 where it is left out."""
    share = g.const(1.0) if u is None else u
    if isinstance(score, SAPS):
        steps = g.add("Add", g.add("Sub", ranks.rank, g.const(2.0)), share)
        later = g.add("Add", ranks.top, g.add("Mul", steps, g.const(score.penalty)))
        first = g.add("Equal", ranks.rank, g.const(1.0))
        return g.add("Where", first, g.add("Mul", share, ranks.top), later)
    mass = ranks.upto
    if u is not None:
        weight = g.add("Sub", ranks.upto, ranks.before)
        mass = g.add("Add", ranks.before, g.add("Mul", u, weight))
    if not isinstance(score, RAPS):
        return mass
    beyond = g.add("Max", g.const(0.0), g.add("Sub", ranks.rank, g.const(score.k_reg)))
    return g.add("Add", mass, g.add("Mul", g.const(score.penalty), beyond))


def _rounded(g: _Graph, p: str) -> str:
    """Round to multiples of 2^-52."""
    return g.add("Sub", g.add("Add", p, g.const(1.0)), g.const(1.0))


def _labels(g: _Graph, p: str) -> str:
    """Return 0 to C - 1."""
    count = g.add("Gather", g.add("Shape", p), g.const(1, np.int64), axis=0)
    return g.add("Range", g.const(0, np.int64), count, g.const(1, np.int64))


def _ranks(g: _Graph, values: str) -> str:
    """Return 1 to C, shape (C,)."""
    return g.add("Add", g.cast(_labels(g, values)), g.const(1.0))


def _capped(g: _Graph, ordered: str) -> _Place:
    """Return the places of labels that stand in their order."""
    mass = g.add("CumSum", ordered, g.const(1, np.int64))
    top = g.add("Slice", ordered, g.ints(0), g.ints(1), g.ints(1))
    return _whole(g, g.add("Sub", mass, ordered), mass, _ranks(g, ordered), top)


def _whole(g: _Graph, before: str, upto: str, rank: str, top: str) -> _Place:
    """Cap masses at 1, and let the last label reach exactly 1."""
    one = g.const(1.0)
    labels = g.add("Gather", g.add("Shape", upto), g.const(1, np.int64), axis=0)
    last = g.add("Equal", rank, g.cast(labels))
    capped = g.add("Where", last, one, g.add("Min", upto, one))
    return _Place(g.add("Min", before, one), capped, rank, top)


def _summed(g: _Graph, ordered: str) -> _Place:
    """Return the places of labels in their order, with float32 sums that are not capped."""
    upto = g.add("CumSum", ordered, g.const(1, np.int64))
    zeros = g.add("Mul", upto, g.const(0.0, np.float32))
    first = g.add("Slice", zeros, g.ints(0), g.ints(1), g.ints(1))
    rest = g.add("Slice", upto, g.ints(0), g.ints(-1), g.ints(1))
    before = g.add("Concat", first, rest, axis=1)
    top = g.add("Slice", ordered, g.ints(0), g.ints(1), g.ints(1))
    return _Place(g.cast(before), g.cast(upto), _ranks(g, upto), g.cast(top))


def _grown(g: _Graph, p: str) -> _Place:
    """Return the places of labels where a block grows from the mode by its larger neighbour.

    A label is taken by the smallest probability between it and the mode, largest first; of equal
    ones those below the mode come first, and on one side the nearer.
    """
    mode, label = g.add("ArgMax", p, axis=1, keepdims=1), _labels(g, p)
    one, other = g.add("Unsqueeze", label, g.ints(1)), g.add("Unsqueeze", label, g.ints(0))
    below, above = g.add("Less", label, mode), g.add("Greater", label, mode)
    b1, b2 = (g.add("Unsqueeze", below, g.ints(axis)) for axis in (2, 1))
    a1, a2 = (g.add("Unsqueeze", above, g.ints(axis)) for axis in (2, 1))
    down = g.add("And", g.add("LessOrEqual", one, other), b2)
    up = g.add("And", g.add("LessOrEqual", other, one), a2)
    p2 = g.add("Unsqueeze", p, g.ints(1))
    walls = g.add("Where", g.add("Or", down, up), p2, g.const(inf))
    key = g.extreme(walls, axis=2, largest=0)
    k1, k2 = (g.add("Unsqueeze", key, g.ints(axis)) for axis in (2, 1))
    nearer_below = g.add("And", g.add("And", b1, b2), g.add("Greater", other, one))
    nearer_above = g.add("And", g.add("And", a1, a2), g.add("Less", other, one))
    sides = g.add("Or", g.add("And", b2, a1), g.add("Or", nearer_below, nearer_above))
    tied = g.add("And", g.add("Equal", k2, k1), sides)
    ahead = g.add("Or", g.add("Greater", k2, k1), tied)
    zero = g.const(0.0)
    before = g.add("ReduceSum", g.add("Where", ahead, p2, zero), g.ints(2), keepdims=0)
    rank = g.add("ReduceSum", g.cast(ahead), g.ints(2), keepdims=0)
    upto = g.add("Add", before, p)
    return _whole(g, before, upto, g.add("Add", rank, g.const(1.0)), zero)


# Intervals ----------------------------------------------------------------------------------------


def _intervals(g: _Graph, score: IntervalScore, q: str, columns: int) -> tuple[str, str]:
    """Return both ends."""
    out = g.cast("outputs")
    q_low, q_high = (g.add("Gather", q, g.const(end, np.int64), axis=1) for end in (0, columns - 1))
    low = high = out
    if score.width == 2:
        low, high = (g.add("Gather", out, g.const(end, np.int64), axis=1) for end in (0, 1))
    if isinstance(score, NormalizedResidual):
        spread = g.add("Max", high, g.const(score.floor))
        high, q_low, q_high = low, _stretch(g, q_low, spread), _stretch(g, q_high, spread)
    elif isinstance(score, CQR):
        low, high = g.add("Min", low, high), g.add("Max", low, high)
    lower = g.add("Neg", _reach(g, g.add("Neg", low), q_low))
    return lower, _reach(g, high, q_high)


def _reach(g: _Graph, base: str, q: str) -> str:
    """Return `kernels.numpy.reach`."""
    y = g.add("Add", base, q)
    d = g.add("Sub", y, base)
    lost = g.add("Less", g.add("Add", base, d), y)
    distance = g.add("Where", lost, _next(g, "Add", d), d)
    return g.add("Where", g.add("Greater", distance, q), _next(g, "Sub", y), y)


def _stretch(g: _Graph, q: str, scale: str) -> str:
    """Return `kernels.numpy.stretch`."""
    length = g.add("Mul", q, scale)
    r = g.add("Div", length, scale)
    lost = g.add("Less", g.add("Mul", r, scale), length)
    ratio = g.add("Where", lost, _next(g, "Add", r), r)
    return g.add("Where", g.add("Greater", ratio, q), _next(g, "Sub", length), length)


def _next(g: _Graph, op: Literal["Add", "Sub"], x: str) -> str:
    """Return the next float up or down: x +- u (1 + 2 u) |x|, exact unless x is below 2^-969.

    References: Rump, Zimmermann, Boldo, Melquiond (2009), BIT 49.
    """
    neighbour = g.add(op, x, g.add("Mul", g.add("Abs", x), g.const(U * (1 + 2 * U))))
    largest = g.const(sys.float_info.max)
    return g.add("Where", g.add("Equal", x, g.const(inf)), largest, neighbour)

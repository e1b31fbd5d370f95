"""The type of lanes, its operators, and how an instruction on them is made."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import wraps
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 16
I16, I32, I64 = ir.IntType(LANES), ir.IntType(32), ir.IntType(64)


class Lanes(types.Type):
    """The type of sixteen numbers, or truths, side by side."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


TRUTHS = Lanes(types.boolean)


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """A vector of LLVM; a truth takes one bit."""

    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        truth = fe_type.dtype == types.boolean
        of = ir.IntType(1) if truth else dmm[fe_type.dtype].get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(of, LANES))


def instruction(result: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make a function of compiled loops from what it emits.

    Parameters
    ----------
    result : callable
        Given the types of the arguments, that of the result.

    Returns
    -------
    callable
        A decorator of a function that is given LLVM's builder and the arguments' values, and
        returns the result's value, or None.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        def typed(_: Any, *kinds: Any) -> Any:
            taken = [types.intp if isinstance(k, types.IntegerLiteral) else k for k in kinds]

            def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:  # noqa: ARG001
                found = emit(builder, *values)
                return context.get_dummy_value() if found is None else found

            return signature(result(*taken), *taken), lower

        return intrinsic(wraps(emit)(typed))  # numba reads how many arguments there are

    return decorate


def _operator(op: Any, whole: str, real: str, compares: bool = False) -> None:
    """Let an operator work on lanes of one type."""

    class Template(AbstractTemplate):
        def generic(self, kinds: Any, _: Any) -> Any:
            if isinstance(kinds[0], Lanes) and kinds[0] == kinds[-1]:
                return signature(TRUTHS if compares else kinds[0], *kinds)
            return None

    def lower(_: Any, builder: Any, sig: Any, values: Any) -> Any:
        dtype = sig.args[0].dtype
        floats = isinstance(dtype, types.Float)
        if not compares:
            return getattr(builder, real if floats else whole)(*values)
        if floats:
            return builder.fcmp_ordered(real, *values)
        return (builder.icmp_signed if dtype.signed else builder.icmp_unsigned)(whole, *values)

    infer_global(op)(Template)
    lower_builtin(op, Lanes, Lanes)(lower)


_operator(operator.add, "add", "fadd")
_operator(operator.sub, "sub", "fsub")
_operator(operator.mul, "mul", "fmul")
_operator(operator.truediv, "", "fdiv")
_operator(operator.and_, "and_", "")
_operator(operator.or_, "or_", "")
_operator(operator.lt, "<", "<", compares=True)
_operator(operator.le, "<=", "<=", compares=True)
_operator(operator.gt, ">", ">", compares=True)
_operator(operator.ge, ">=", ">=", compares=True)
_operator(operator.eq, "==", "==", compares=True)


def constant(of: Any, values: list[int]) -> Any:
    """Return numbers that are known beforehand."""
    return ir.Constant(ir.VectorType(of, len(values)), values)


def call(builder: Any, name: str, result: Any, *values: Any, fastmath: tuple[str, ...] = ()) -> Any:
    """Call a function of LLVM."""
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(
        get_or_insert_function(builder.module, kind, name), values, fastmath=fastmath
    )

"""Methods of federated conformal prediction, found by name.

A file or sub-package without underscore is a method: ``fedcp_qq.py`` holds ``fedcp-qq``. A file
with an underscore is code that several methods share; the contract is in ``_base.py``.
"""

from __future__ import annotations

from typing import Any

from fedwqcp.errors import UnfitAnswerError
from fedwqcp.methods._base import (
    Exchange,
    LocalThresholds,
    Method,
    OneShot,
    PerAgentQuestions,
    Terms,
    Traits,
)
from fedwqcp.methods._calibration import Calibration, Disclosure
from fedwqcp.methods._masked_sums import MODULUS, FixedPoint, Summed, Total
from fedwqcp.methods.auto import Borrowed
from fedwqcp.methods.guarded_median_cp import Proposal
from fedwqcp.registry import Registry, Setting

_registry: Registry[Method[Any]] = Registry(
    Method,  # type: ignore[type-abstract]  # only searched for
    "fedwqcp.methods",
    "method",
)


def available() -> tuple[str, ...]:
    """Return the names of all methods.

    Returns
    -------
    tuple of str
        Sorted names, such as ``"fedwq-cp"``.
    """
    return _registry.available()


def get(name: str, /, **settings: Setting) -> Method[Any]:
    """Return a method by its name.

    Parameters
    ----------
    name : str
        As `available` lists it.
    **settings
        Settings of that method.

    Returns
    -------
    Method
        The method.

    Raises
    ------
    InputError
        If the name or a setting is unknown or wrong.

    Examples
    --------
    >>> get("fedwq-cp", overflow="clip")
    FedWQCP(overflow='clip', tail=0)
    """
    return _registry.make(name, settings)


def built_in() -> tuple[str, ...]:
    """Return the names of this package's own methods, without plug-ins.

    Returns
    -------
    tuple of str
        In alphabetical order.
    """
    return _registry.built_in


def find(name: str) -> type[Method[Any]]:
    """Return the class of a method by its name.

    Parameters
    ----------
    name : str
        As `available` lists it.

    Returns
    -------
    type
        The class.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    return _registry.find(name)


def name_of(method: Method[Any]) -> str:
    """Return the name by which `get` gives this kind of method.

    Parameters
    ----------
    method : Method
        A method.

    Returns
    -------
    str
        Its name.
    """
    return _registry.name_of(method)


__all__ = [
    "MODULUS",
    "Borrowed",
    "Calibration",
    "Exchange",
    "Disclosure",
    "FixedPoint",
    "LocalThresholds",
    "Method",
    "OneShot",
    "PerAgentQuestions",
    "Proposal",
    "Summed",
    "Total",
    "Terms",
    "Traits",
    "UnfitAnswerError",
    "available",
    "built_in",
    "find",
    "get",
    "name_of",
]

"""Errors are asserted by their class and attributes, never by their text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def raises(kind: type[Exception], **attributes: object) -> Iterator[pytest.ExceptionInfo]:
    """Hold that an error of a class is raised, with these attributes (``field``, ``row``)."""
    with pytest.raises(kind) as error:
        yield error
    assert {name: getattr(error.value, name) for name in attributes} == attributes

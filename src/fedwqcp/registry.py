"""Finding a method or a score by its name: one public class in one file of a package.

The file ``fedcp_qq.py`` holds the class known as ``fedcp-qq``. Files whose name begins with an
underscore hold none. Other distributions register theirs through an entry-point group.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from importlib import metadata
from typing import Generic, TypeVar

from fedwqcp.errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """The classes of one kind, by name.

    Parameters
    ----------
    base : type
        What every class derives from.
    package : str
        The package whose files are searched; also the entry-point group.
    kind : str
        What they are called in errors.
    """

    def __init__(self, base: type[T], package: str, kind: str) -> None:
        self._base = base
        self._package = package
        self._kind = kind

    def available(self) -> tuple[str, ...]:
        """Return the known names, sorted.

        Returns
        -------
        tuple of str
            Names of the package's own files and of the registered ones.
        """
        return tuple(sorted({*self._own(), *self._registered()}))

    def find(self, name: str) -> type[T]:
        """Return the class with this name.

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
            If there is none; the error lists the known names.
        """
        if name in self._own():
            module = importlib.import_module(f"{self._package}.{name.replace('-', '_')}")
            return self._class_of(module.__dict__, module.__name__)
        registered = self._registered()
        if name in registered:
            found = registered[name].load()
            if not (isinstance(found, type) and issubclass(found, self._base)):
                raise InputError(f"{self._kind} {name!r} must be a {self._base.__name__} class")
            return found
        raise InputError(f"unknown {self._kind} {name!r}; known: {', '.join(self.available())}")

    def make(self, name: str, settings: Mapping[str, object]) -> T:
        """Return the object with this name and these settings.

        Parameters
        ----------
        name : str
            As `available` lists it.
        settings : mapping
            Fields of its class; those left out keep their default.

        Returns
        -------
        object
            The method or score.

        Raises
        ------
        InputError
            If the name or a setting is unknown, or a setting has a wrong value.
        """
        found = self.find(name)
        fields = dataclasses.fields(found)  # type: ignore[arg-type]  # all are dataclasses
        known = [field.name for field in fields]
        for key in settings:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                raise InputError(
                    f"{self._kind} {name!r} has no setting {key!r}"
                    + (f"; did you mean {near[0]!r}?" if near else "")
                    + f"; known: {', '.join(known) or 'none'}"
                )
        for field in fields:
            if field.name in settings:
                _check_type(self._kind, name, field, settings[field.name])
        return found(**settings)

    def name_of(self, thing: T) -> str:
        """Return the name by which `find` gives the class of this object.

        Parameters
        ----------
        thing : object
            A method or score.

        Returns
        -------
        str
            Its name.

        Raises
        ------
        InputError
            If its class is not registered.
        """
        cls = type(thing)
        package, _, file = cls.__module__.rpartition(".")
        if package == self._package:
            return file.replace("_", "-")
        for name, entry in self._registered().items():
            if entry.value == f"{cls.__module__}:{cls.__qualname__}":
                return name
        raise InputError(
            f"{self._kind} {cls.__name__} is not registered; put its file into {self._package} "
            f"or register it in the entry-point group {self._package!r}"
        )

    def _own(self) -> tuple[str, ...]:
        """Names of the package's own files."""
        path = importlib.import_module(self._package).__path__
        files = (module.name for module in pkgutil.iter_modules(path))
        return tuple(file.replace("_", "-") for file in files if not file.startswith("_"))

    def _registered(self) -> dict[str, metadata.EntryPoint]:
        """Entry points of other distributions."""
        return {entry.name: entry for entry in metadata.entry_points(group=self._package)}

    def _class_of(self, names: Mapping[str, object], module: str) -> type[T]:
        """Return the one public class that a module defines."""
        found = [
            thing
            for name, thing in names.items()
            if isinstance(thing, type)
            and issubclass(thing, self._base)
            and thing.__module__ == module
            and not name.startswith("_")
        ]
        if len(found) != 1:
            raise InputError(f"{module} must define one {self._base.__name__}, got {len(found)}")
        return found[0]


def _check_type(kind: str, name: str, field: dataclasses.Field[object], value: object) -> None:
    """Refuse a flag or number of another type; texts and choices are checked by their owner."""
    wanted: type | tuple[type, ...] = type(field.default)
    if wanted is float:
        wanted = (int, float)
    if wanted is bool or isinstance(field.default, int | float):
        flag = isinstance(value, bool)
        if not isinstance(value, wanted) or flag != isinstance(field.default, bool):
            words = {bool: "true or false", int: "an integer", float: "a number"}
            raise InputError(
                f"setting {field.name!r} of {kind} {name!r} must be "
                f"{words[type(field.default)]}, got {value!r}"
            )

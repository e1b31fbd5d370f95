"""Finding a method or a score by its name: one public class in one file of a package.

The file ``fedcp_qq.py`` holds the class known as ``fedcp-qq``. Files whose name begins with an
underscore hold none. Other distributions register theirs through an entry-point group.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from fedwqcp._validation import known_hint, shown
from fedwqcp.errors import FedwqcpError, InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

Setting: TypeAlias = bool | int | float | str | tuple[float, ...] | None
"""What a setting of a method or score may be: all of these can be sent."""

TERM = {"term": True}
"""Metadata of a field that the terms of a round fill in, so that it is no setting."""


def settings_of(thing: Any) -> tuple[str, ...]:
    """Return the names of the settings of a method or a score, or of its class."""
    return tuple([f.name for f in dataclasses.fields(thing) if not f.metadata.get("term")])


def typed(value: Setting) -> str:
    """Write one value of a setting as `parse_setting` reads it."""
    if isinstance(value, tuple):
        return ",".join(map(repr, value)) + "," * (len(value) == 1)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def parse_setting(text: str) -> Setting:
    """Read one value of a setting: a number, numbers with commas, true, false, none or a text."""
    words: dict[str, Setting] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        if "," in text:
            return tuple(map(float, text.strip().removesuffix(",").split(",")))
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        return text


class Registry(Generic[T]):
    """The classes of one kind, by name."""

    def __init__(self, base: type[T], package: str, kind: str) -> None:
        self._base = base
        self._package = package
        self._kind = kind
        self._classes: dict[str, type[T]] = {}  # of built-in names

    def available(self) -> tuple[str, ...]:
        """Return the known names, sorted."""
        return tuple(sorted({*self.built_in, *self._registered()}))

    def find(self, name: str) -> type[T]:
        """Return the class with this name."""
        if not isinstance(name, str):
            raise InputError(f"a {self._kind} is found by its name, got {shown(name)}")
        if name in self._classes:
            return self._classes[name]
        if name in self.built_in:
            module = importlib.import_module(f"{self._package}.{name.replace('-', '_')}")
            self._classes[name] = self._class_of(module.__dict__, module.__name__)
            return self._classes[name]
        registered = self._registered()
        if name in registered:
            try:
                loaded = registered[name].load()
            except FedwqcpError:  # such as a missing extra, which says what to do
                raise
            except Exception as error:
                raise InputError(
                    f"{self._kind} {name!r} of {registered[name].value} cannot be loaded "
                    f"({type(error).__name__}: {error}); repair or remove the package that has it"
                ) from error
            whose = f"{self._kind} {name!r} of {registered[name].value}"
            if not (isinstance(loaded, type) and issubclass(loaded, self._base)):
                raise InputError(f"{whose} must derive from {self._base.__name__}")
            if missing := sorted(getattr(loaded, "__abstractmethods__", ())):
                raise InputError(f"{whose} must define {', '.join(missing)}")
            if not hasattr(loaded, "__dataclass_fields__"):
                raise InputError(f"{whose} must be a dataclass: decorate it with @dataclass")
            return loaded
        raise InputError(f"unknown {self._kind} {shown(name)}{known_hint(name, self.available())}")

    def make(self, name: str, settings: Mapping[str, object]) -> T:
        """Return the object with this name and these settings."""
        cls = self.find(name)
        if not settings:
            return cls()
        known = settings_of(cls)
        terms = {field.name for field in dataclasses.fields(cls)} - set(known)  # type: ignore[arg-type]  # all are dataclasses
        for key, value in settings.items():
            if key in terms:
                written = ",".join(map(str, value)) if isinstance(value, tuple) else value
                raise InputError(
                    f"{key} is a term of the round, not a setting of {self._kind} {name!r}: write "
                    f"calibrate(..., {key}={value!r}) or `server open --{key} {written}`"
                )
            if key not in known:
                raise InputError(
                    f"{self._kind} {name!r} has no setting {key!r}{known_hint(key, known)}"
                )
        return cls(**settings)

    def name_of(self, thing: T) -> str:
        """Return the name by which `find` gives the class of this object."""
        cls = type(thing)
        package, _, file = cls.__module__.rpartition(".")
        if package == self._package:
            return file.replace("_", "-")
        for name, entry in self._registered().items():
            if entry.attr == cls.__qualname__ and self.find(name) is cls:
                return name
        raise InputError(
            f"{self._kind} {cls.__name__} is not registered; put its file into {self._package} "
            f"or register it in the entry-point group {self._package!r}"
        )

    @cached_property
    def built_in(self) -> tuple[str, ...]:
        """Names of the package's own files, without plug-ins."""
        path = importlib.import_module(self._package).__path__
        files = (module.name for module in pkgutil.iter_modules(path))
        return tuple(file.replace("_", "-") for file in files if not file.startswith("_"))

    def _registered(self) -> dict[str, EntryPoint]:
        """Entry points of other distributions."""
        from importlib import metadata  # takes 20 ms: only where a name is looked up

        return {entry.name: entry for entry in metadata.entry_points(group=self._package)}

    def _class_of(self, names: Mapping[str, object], module: str) -> type[T]:
        """Return the one public class that a module defines."""
        classes = [
            thing
            for name, thing in names.items()
            if isinstance(thing, type)
            and issubclass(thing, self._base)
            and thing.__module__ == module
            and not name.startswith("_")
        ]
        if len(classes) != 1:
            raise InputError(f"{module} must define one {self._base.__name__}, got {len(classes)}")
        return classes[0]

"""Fields of one entry of a suite, checked: what is wrong is one line with the file and the entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from focat.errors import FocatError


class Fields:
    """One entry, and where it stands."""

    def __init__(self, where: str, content: Any) -> None:
        self.where = where
        if not isinstance(content, Mapping):
            raise self.error(f"{json_type(content)}; expected an object")
        self.content: Mapping[str, Any] = content

    def error(self, problem: str) -> FocatError:
        """An error about this entry."""
        return FocatError(f"{self.where}: {problem}")

    def get(self, name: str) -> Any:
        """A field that must be there."""
        if name not in self.content:
            there = ", ".join(f"`{field}`" for field in self.content)
            raise self.error(f"no field `{name}`; it has {there or 'none'}")
        return self.content[name]

    def text(self, name: str) -> str:
        """A sentence."""
        return self._text(name, self.get(name))

    def texts(self, name: str, least: int = 0) -> list[str]:
        """A list of sentences."""
        value = self.get(name)
        if not isinstance(value, list):
            raise self.error(f"`{name}` is {json_type(value)}; expected a list of strings")
        if len(value) < least:
            raise self.error(f"`{name}` has {len(value)} of at least {least}")
        return [self._text(f"{name}[{i}]", text) for i, text in enumerate(value)]

    def index(self, name: str, size: int) -> int:
        """A place in a list of this size."""
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"`{name}` is {json_type(value)}; expected a number from 0 to {size - 1}")
        if not 0 <= value < size:
            raise self.error(f"`{name}` is {value}, but the {size} candidates are counted from 0 to {size - 1}")
        return value

    def distance(self, name: str) -> int | None:
        """A number of sentences; null, a field that is missing and a negative number all say that nobody knows."""
        value = self.content.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"`{name}` is {json_type(value)}; expected a number of sentences or null")
        return value if value >= 0 else None

    def inner(self, name: str) -> list[Fields]:
        """A list of objects."""
        value = self.get(name)
        if not isinstance(value, list):
            raise self.error(f"`{name}` is {json_type(value)}; expected a list of objects")
        return [Fields(f"{self.where}, `{name}[{i}]`", content) for i, content in enumerate(value)]

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self.error(f"`{name}` is {json_type(value)}; expected a string")
        if not value.strip():
            raise self.error(f"`{name}` is empty")
        return value


def json_type(value: object) -> str:
    """What a value is, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")

"""Checked access to the fields of one entry of a suite; errors name the file and the entry."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from focat.errors import FocatError


class Fields:
    """One entry of a suite."""

    def __init__(self, where: str, content: object) -> None:
        """`where` is the file and the number of the entry."""
        self.where = where
        if not isinstance(content, Mapping):
            raise self.error(f"{json_type(content)}; expected an object")
        self.content: Mapping[str, JsonValue] = content

    def error(self, problem: str) -> FocatError:
        """Return an error about this entry."""
        return FocatError(f"{self.where}: {problem}")

    def get(self, name: str) -> JsonValue:
        """Return a required field."""
        if name not in self.content:
            there = ", ".join(f"`{field}`" for field in self.content)
            raise self.error(f"no field `{name}`; it has {there or 'none'}")
        return self.content[name]

    def text(self, name: str) -> str:
        """Return a field that is a non-empty string."""
        return self._text(name, self.get(name))

    def texts(self, name: str, least: int = 0) -> list[str]:
        """Return a field that is a list of at least `least` non-empty strings."""
        value = self.get(name)
        if not isinstance(value, list):
            raise self.error(f"`{name}` is {json_type(value)}; expected a list of strings")
        if len(value) < least:
            raise self.error(f"`{name}` has {len(value)} of at least {least}")
        return [self._text(f"{name}[{i}]", text) for i, text in enumerate(value)]

    def index(self, name: str, size: int) -> int:
        """Return a field that is an index into a list of this size."""
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"`{name}` is {json_type(value)}; expected a number from 0 to {size - 1}")
        if not 0 <= value < size:
            raise self.error(f"`{name}` is {value}, but the {size} candidates are counted from 0 to {size - 1}")
        return value

    def distance(self, name: str) -> int | None:
        """Return a number of sentences; None if the field is missing, null or negative."""
        value = self.content.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"`{name}` is {json_type(value)}; expected a number of sentences or null")
        return value if value >= 0 else None

    def inner(self, name: str) -> list[Fields]:
        """Return a field that is a list of objects."""
        value = self.get(name)
        if not isinstance(value, list):
            raise self.error(f"`{name}` is {json_type(value)}; expected a list of objects")
        return [Fields(f"{self.where}, `{name}[{i}]`", content) for i, content in enumerate(value)]

    def _text(self, name: str, value: JsonValue) -> str:
        if not isinstance(value, str):
            raise self.error(f"`{name}` is {json_type(value)}; expected a string")
        if not value.strip():
            raise self.error(f"`{name}` is empty")
        return value


def json_type(value: object) -> str:
    """Return the JSON type of a value, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")

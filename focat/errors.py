"""Errors that a user can mend: a single clear line, shown without a traceback, exit code 2."""

from __future__ import annotations


class FocatError(Exception):
    """Says what was found, where, and what to do about it, in one line."""


class ParameterError(FocatError):
    """A parameter has a value that cannot be used.

    From Python it reads `window = 9: …`; the command line, which knows its flags, shows `--window 9: …`.
    """

    def __init__(self, parameter: str, value: object, problem: str) -> None:
        super().__init__(f"{parameter} = {value}: {problem}")
        self.parameter, self.value, self.problem = parameter, value, problem

    def with_name(self, name: str | None) -> str:
        """Return the message with another name for the parameter, such as a flag; None keeps its own."""
        if name is None:
            return str(self)
        return f"{name}: {self.problem}" if self.value is True else f"{name} {self.value}: {self.problem}"

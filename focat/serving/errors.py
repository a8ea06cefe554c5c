"""Errors of the APIs: a status, and a message in the form that the clients of each API expect."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError
from starlette.responses import JSONResponse

from focat.config.explain import short_text
from focat.errors import ParameterError
from focat.printing import abridged

_MESSAGES = {  # instead of pydantic's
    "extra_forbidden": "there is no such field; /docs lists them",
    "missing": "is needed and not given",
}


class ApiError(Exception):
    """What is wrong with a request, or why it is not answered now."""

    def __init__(
        self, status: int, message: str, parameter: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, abridged(message)
        self.parameter, self.headers = parameter, headers

    @classmethod
    def invalid(cls, error: ValidationError) -> ApiError:
        """The first thing that is wrong with a body."""
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = short_text(".".join(str(part) for part in first["loc"]))
        message = _MESSAGES.get(first["type"], first["msg"].removeprefix("Value error, "))
        return cls(400, f"{where}: {message}" if where else message, where or None)

    @classmethod
    def of_parameter(cls, error: ParameterError) -> ApiError:
        """An error of the translator about what it was given."""
        return cls(400, str(error), error.parameter)

    @classmethod
    def later(cls, status: int, message: str, seconds: int) -> ApiError:
        """An error that goes away by itself."""
        return cls(status, message, headers={"Retry-After": str(seconds)})

    def response(self, path: str) -> JSONResponse:
        """The answer, in the form of the API that the path belongs to."""
        content: dict[str, object]
        if path.startswith("/v1/"):
            content = {"error": {"message": self.message, "parameter": self.parameter}}
        elif path.startswith("/v2/"):
            content = {"message": self.message}
        else:
            content = {"error": self.message}
        return JSONResponse(content, self.status, headers=self.headers)

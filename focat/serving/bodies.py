"""Bodies of requests: JSON or forms, checked against a model."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request

from focat.serving.errors import ApiError

Body = TypeVar("Body", bound=BaseModel)
_MAX_FIELDS = 10_000  # of a form


class StrictBody(BaseModel):
    """A body of the native API: a name that it does not have is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class LenientBody(BaseModel):
    """A body of an API that others define: names that mean nothing here are passed over."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)


async def read_json(request: Request, model: type[Body]) -> Body:
    """Read and check a body of JSON."""
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        raise ApiError.invalid(error) from None


async def read_fields(request: Request) -> dict[str, Any]:
    """The fields of a body of JSON or of a form; a field that a form has several times is a list.

    Without a body, they are those of the address: LibreTranslate takes them there, and some clients send them so.
    """
    if request.query_params and not await request.body():
        return _collected(request.query_params.multi_items())
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return _urlencoded(await request.body())
    if kind == "multipart/form-data":
        try:
            return _collected((await request.form(max_fields=_MAX_FIELDS)).multi_items())
        except HTTPException as error:
            raise ApiError(400, f"the form cannot be read: {error.detail}") from None
    try:
        fields = from_json(await request.body(), allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(400, f"the body is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ApiError(400, "the body should be a JSON object, or a form")
    return fields


def check_fields(fields: dict[str, Any], model: type[Body]) -> Body:
    """Check fields that were read."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise ApiError.invalid(error) from None


def _urlencoded(body: bytes) -> dict[str, Any]:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError as error:
        raise ApiError(400, f"the form cannot be read: {error}") from None
    return _collected(pairs)


def _collected(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields

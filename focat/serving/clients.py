"""Who asks: the API key of a request, and the name under which the server remembers a client."""

from __future__ import annotations

import hmac
from collections.abc import Collection

from starlette.requests import Request

from focat.serving.errors import ApiError

_SCHEMES = ("deepl-auth-key", "bearer")


def key_in_header(request: Request) -> str | None:
    """The API key of the header: `Authorization: DeepL-Auth-Key K` or `Bearer K`."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() in _SCHEMES else None


def identify(
    request: Request, keys: Collection[str], key: str | None = None, session: str | None = None, status: int = 403
) -> str:
    """The name of a client: its key, or its address; with its session, if it has several.

    Args:
        keys: of which each request must have one; empty if anybody may ask.
        key: that of the body, where an API has it there.
        session: what a client calls one of several conversations.
        status: of the error that an API has for a wrong key.

    Raises:
        ApiError: the key is missing or wrong.
    """
    key = key or key_in_header(request)
    if keys:
        if key is None or not _contains(keys, key):
            missing = "an API key is needed" if key is None else "this API key is not known"
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
            raise ApiError(status, f"{missing}; ask whoever runs the server for one", headers=headers)
        return f"key {key} {session or ''}"
    address = request.client.host if request.client else ""
    return f"address {address} {key or ''} {session or ''}"


def _contains(keys: Collection[str], key: str) -> bool:
    """Whether a key is one of these, in a time that does not depend on how much of it is right."""
    given = key.encode("utf-8", "replace")
    return sum(hmac.compare_digest(given, known.encode()) for known in keys) > 0

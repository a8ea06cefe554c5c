"""Who asks: the API key of a request, and the name under which the server remembers a client."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass

from starlette.requests import Request

from focat.serving.errors import ApiError

_SCHEMES = ("deepl-auth-key", "bearer")
_MAX_NAME = 200  # characters of a session, which is kept in memory


@dataclass(frozen=True)
class Client:
    """Who asks."""

    owner: str
    """A key of the server's, or an address: what limits count by, since nobody has as many as they like."""
    conversation: tuple[str, ...] = ()
    """What tells documents of an owner apart, as clients like: a session, a key that is not checked, a web page."""


def key_in_header(request: Request) -> str | None:
    """The API key of the header: `Authorization: DeepL-Auth-Key K` or `Bearer K`."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() in _SCHEMES else None


def identify(
    request: Request, keys: Collection[str], key: str | None = None, session: str | None = None, status: int = 403
) -> Client:
    """The client of a request.

    A web page of another site that a browser lets ask is a client of its own, so that it learns nothing of what
    programs on the same machine translate.

    Args:
        keys: of which each request must have one; empty if anybody may ask.
        key: that of the body, where an API has it there.
        session: what a client calls one of several conversations.
        status: of the error that an API has for a wrong key.

    Raises:
        ApiError: the key is missing or wrong, or a name is too long.
    """
    key, session = key or key_in_header(request), session or ""
    conversation: tuple[str, ...] = session, request.headers.get("origin", "")
    if keys:
        if key is None or not _contains(keys, key):
            missing = "an API key is needed" if key is None else "this API key is not known"
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
            raise ApiError(status, f"{missing}; ask whoever runs the server for one", headers=headers)
        owner = f"key {key}"
    else:
        owner = f"address {request.client.host if request.client else ''}"
        conversation = *conversation, key or ""
    if any(len(name) > _MAX_NAME for name in conversation):
        raise ApiError(400, f"session: a session or key has at most {_MAX_NAME} characters", "session")
    return Client(owner, conversation)


def _contains(keys: Collection[str], key: str) -> bool:
    """Whether a key is one of these, in a time that does not depend on how much of it is right."""
    given = key.encode("utf-8", "replace")
    return sum(hmac.compare_digest(given, known.encode()) for known in keys) > 0

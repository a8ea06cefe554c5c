"""A mkdocs hook: links to files outside docs/ lead to the repository, and are an error if the file is missing."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOG = logging.getLogger("mkdocs.hooks.outside_links")
_OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Replace `](../path)` by the address of the file in the repository.

    Args:
        markdown: text of the page
        page: the page, for messages
        config: settings of mkdocs, with `repo_url`

    Returns:
        the text with its links replaced
    """

    def in_repository(link: re.Match[str]) -> str:
        path = ROOT / link[1]
        if not path.exists():
            LOG.warning("%s links to ../%s, which does not exist", page.file.src_uri, link[1])
        kind = "tree" if path.is_dir() else "blob"
        return f"]({config.repo_url.rstrip('/')}/{kind}/main/{link[1]}{link[2] or ''})"

    return _OUTSIDE.sub(in_repository, markdown)

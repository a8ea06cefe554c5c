"""The pages of the documentation and their code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A page of the documentation."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> Path:
        """The file."""
        return ROOT / self.name

    @cached_property
    def text(self) -> str:
        """The whole text."""
        return self.path.read_text(encoding="utf-8")

    def blocks(self, *kinds: str) -> list[tuple[str, str]]:
        """Kind and content of all blocks of these kinds, in order."""
        return [(kind, content) for kind, content in _BLOCK.findall(self.text) if kind in kinds]

    def files(self) -> dict[str, str]:
        """Settings files and plans on the page: blocks that begin with `# NAME.yaml`."""
        found = {}
        for _, content in self.blocks("yaml"):
            named = re.match(r"# ([\w-]+\.yaml)", content)
            if named:
                found[named[1]] = content
        return found

    def links(self) -> list[str]:
        """Targets of its links to other files."""
        return re.findall(r"\]\((?!http)([^)#\s]+)(?:#[^)]*)?\)", self.text)


PAGES = [Page(name) for name in NAMES]

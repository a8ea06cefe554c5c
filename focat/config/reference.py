"""The settings reference, a page of Markdown made from the schema: what is documented where it is declared.

`focat config --reference` prints it, and docs/settings.md is what it prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from focat.config.loading import settings_schema

Node = dict[str, Any]

_INTRODUCTION = """\
# Settings

On this page you can look up every setting: its kind, its default and its meaning. `focat config --reference` generates
it from the schema. A settings file is YAML: `windows.before` below is `before:` under `windows:` in the file, or
`windows.before=3` on the command line. `focat config FILE` prints the settings that a file results in.
"""


def settings_reference() -> str:
    """All settings with their kind, default and meaning, as Markdown."""
    schema = settings_schema()
    lines, told = [_INTRODUCTION], set[str]()
    for name, node in schema["properties"].items():
        lines += _section(name, node, schema["$defs"], told)
    return "\n".join(lines)


def _section(name: str, node: Node, definitions: Node, told: set[str]) -> Iterator[str]:
    """A section's own settings as one table, then the sections inside it; each section once."""
    if node.get("$ref", name) in told:
        return
    told.add(node.get("$ref", name))
    found = _resolved(node, definitions)
    properties = found.get("properties", {})
    kind = properties.get("format", {}).get("const")
    yield f"## {name}" + (f", format: {kind}" if kind else "") + "\n"
    yield _flat(found.get("description", "")) + "\n"
    if properties:
        yield "| setting | kind | default | meaning |\n|---|---|---|---|"
    for key, child in properties.items():
        if key != "format":
            yield "| " + " | ".join(_row(f"{name}.{key}", child, definitions)) + " |"
    yield ""
    for key, child in properties.items():
        for part in _choices(child.get("items", child)):
            if "properties" in _resolved(part, definitions):
                yield from _section(f"{name}.{key}", part, definitions, told)


def _row(name: str, node: Node, definitions: Node) -> tuple[str, str, str, str]:
    default = "" if "default" not in node or isinstance(node["default"], dict) else f"`{json.dumps(node['default'])}`"
    return f"`{name}`", _kind(node, definitions), default, _flat(node.get("description", ""))


def _kind(node: Node, definitions: Node) -> str:
    """What may stand there, in words."""
    kinds = dict.fromkeys(_one_kind(part, definitions) for part in _choices(node))
    return " or ".join(kinds)


def _one_kind(node: Node, definitions: Node) -> str:
    found = _resolved(node, definitions)
    if "properties" in found:
        return "see below"
    if "const" in found:
        return f"`{found['const']}`"
    if "enum" in found:
        return ", ".join(f"`{choice}`" for choice in found["enum"])
    if found.get("type") == "array":
        items = found.get("prefixItems") or [found.get("items", {})]
        kinds = ", ".join(dict.fromkeys(_kind(item, definitions) for item in items))
        return "list, see below" if kinds == "see below" else f"list of {kinds}"
    words = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true`, `false`"}
    kind = words.get(found.get("type", ""), "nothing" if found.get("type") == "null" else "anything")
    limits = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {found[key]}" for key, sign in limits.items() if key in found]
    return " ".join([kind, ", ".join(bounds)]).strip()


def _choices(node: Node) -> list[Node]:
    choices: list[Node] = node.get("anyOf") or node.get("oneOf") or [node]
    return choices


def _resolved(node: Node, definitions: Node) -> Node:
    """The definition that a node points at, or the node itself."""
    if "$ref" in node:
        found: Node = definitions[node["$ref"].rsplit("/", 1)[1]]
        return found
    return node


def _flat(text: str) -> str:
    """On one line, and with no cell of a table ended early."""
    return " ".join(text.split()).replace("|", "\\|")

"""The one reader of YAML, for settings files, plans and overrides.

It has limits, because aliases let a few bytes stand for gigabytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from focat.config.sections import FileString
from focat.errors import FocatError

# Far above any settings file or plan; YAML beyond them would take minutes, or all of the memory.
MAX_BYTES = 4 << 20
MAX_DEPTH = 100
"""Sections and lists inside each other."""
MAX_VALUES = 200_000
"""Counted wherever an alias repeats them."""
MAX_INTEGER_BITS = 1000


class YamlLimitError(yaml.MarkedYAMLError):
    """YAML that is too deep or, with its aliases replaced, too large."""


class _LimitedLoader(yaml.SafeLoader):
    """YAML loader that refuses what is nested too deeply or grows too large."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise YamlLimitError(problem=_TOO_DEEP, problem_mark=self.get_mark())
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ValueError, ArithmeticError, LookupError, AttributeError) as error:  # no such date or number
            wrong = str(error) if isinstance(error, ValueError) else f"is no {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, wrong, node.start_mark) from None
        if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
            raise yaml.constructor.ConstructorError(None, None, "a number with too many digits", node.start_mark)
        return value

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _measure(node, {})
        return node


_TOO_DEEP = f"more than {MAX_DEPTH} sections or lists inside each other"


def _measure(node: yaml.Node, measured: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Return the number of values below a node and how deep they go, with aliases replaced by what they repeat."""
    if id(node) in measured:
        found = measured[id(node)]
        if found is None:
            raise YamlLimitError(problem="an alias that contains itself", problem_mark=node.start_mark)
        return found
    measured[id(node)] = None
    values, depth = 1, 0
    if isinstance(node, yaml.CollectionNode):
        pairs = isinstance(node, yaml.MappingNode)
        for child in (inner for pair in node.value for inner in pair) if pairs else node.value:
            below = _measure(child, measured)
            values, depth = values + below[0], max(depth, below[1])
    if depth + 1 > MAX_DEPTH:
        raise YamlLimitError(problem=_TOO_DEEP, problem_mark=node.start_mark)
    if values > MAX_VALUES:
        raise YamlLimitError(
            problem=f"aliases that repeat more than {MAX_VALUES:,} values", problem_mark=node.start_mark
        )
    measured[id(node)] = values, depth + 1
    return values, depth + 1


class _FileLoader(_LimitedLoader):
    """YAML loader whose strings know the folder of their file, and which refuses a key given twice."""

    folder: Path


def _string(loader: _FileLoader, node: yaml.ScalarNode) -> FileString:
    return FileString(str(loader.construct_scalar(node)), loader.folder)


def _mapping(loader: _FileLoader, node: yaml.MappingNode) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(loader.construct_object(key_node, deep=True))
        if key in tree:
            raise yaml.constructor.ConstructorError(None, None, f"'{key}' is given twice", key_node.start_mark)
        tree[key] = loader.construct_object(value_node, deep=True)
    return tree


_FileLoader.add_constructor("tag:yaml.org,2002:str", _string)
_FileLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse_yaml(text: str) -> Any:
    """Read YAML from a text.

    Raises:
        YamlLimitError: it is too deep or too large.
        yaml.YAMLError, ValueError: it is no YAML.
    """
    return yaml.load(text, _LimitedLoader)


def read_yaml(path: Path) -> dict[str, Any] | None:
    """Read the sections of a YAML file; None if there is nothing in it.

    Raises:
        FocatError: the file cannot be read, or holds no sections.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise FocatError(f"{path}: is larger than {MAX_BYTES >> 20} MiB, and no file of settings")
        loader = _FileLoader(content.decode())
    except OSError as error:
        raise FocatError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.reader.ReaderError):
        raise FocatError(f"{path}: is not a text file in UTF-8") from None
    loader.folder = path.parent
    try:
        tree = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        wrong = "cannot be used" if isinstance(error, YamlLimitError) else "not valid YAML"
        raise FocatError(f"{path}, line {line}: {wrong}: {error.problem}") from None
    finally:
        loader.dispose()
    if tree is not None and not isinstance(tree, dict):
        kind = "a list" if isinstance(tree, list) else "a single value"
        raise FocatError(f"{path}: holds {kind}; expected sections such as `windows:` and `model:`")
    return tree

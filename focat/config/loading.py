"""From YAML files and `key=value` overrides to typed settings."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from typing_extensions import Unpack

from focat.config.data import FileString
from focat.config.explain import explain, short_text
from focat.config.schema import DecodingSettings, SearchOptions, SearchSettings, Settings
from focat.errors import FocatError

Tree = dict[str, Any]
ModelT = TypeVar("ModelT", bound=BaseModel)

RECIPES = Path(__file__).parent.parent / "recipes"  # one settings file for each system, part of the package
_RECIPE = "focat:"  # prefix of a recipe's name where a settings file is expected


def load_settings(path: Path, overrides: Sequence[str] = ()) -> Settings:
    """Read settings from a YAML file or a recipe.

    Args:
        path: a settings file, or `focat:NAME` for a recipe that comes with focat. Settings of its `base:` files come
            first, those of the file itself replace them.
        overrides: `key=value` texts that replace both, as in `windows.before=3`.

    Raises:
        FocatError: the file cannot be read, or a setting is unknown or wrong.
    """
    return validate_tree(Settings, apply_overrides(read_tree(path), overrides), str(path))


def read_tree(path: Path) -> Tree:
    """Read a YAML file or a recipe, merged over its `base:` files, without validating it."""
    return _read_with_bases(packaged_file(str(path), RECIPES, "recipe") or path, ())


def apply_overrides(tree: Tree, overrides: Sequence[str]) -> Tree:
    """Return the tree with `key=value` overrides applied in order."""
    for override in overrides:
        tree = _apply(tree, override)
    return tree


def validate_tree(root: type[ModelT], tree: Tree, where: str) -> ModelT:
    """Turn a tree into typed settings.

    Raises:
        FocatError: it does not validate; the message begins with `where`.
    """
    try:
        return root.model_validate(tree)
    except ValidationError as error:
        raise FocatError(f"{where}: {explain(error, tree, root)}") from None


def override_decoding(settings: Settings, overrides: Sequence[str]) -> Settings:
    """Return the settings of a trained system with overrides such as `decoding.beam=8`.

    Raises:
        FocatError: an override is wrong, or about a setting that training has fixed.
    """
    for override in overrides:
        if not override.startswith("decoding."):
            raise FocatError(f"{short_text(override)}: only settings of decoding can change after training")
    tree = apply_overrides({"decoding": settings.decoding.model_dump()}, overrides)
    return settings.model_copy(update={"decoding": validate_tree(Settings, tree, "settings").decoding})


def search_settings(decoding: DecodingSettings, **changes: Unpack[SearchOptions]) -> SearchSettings:
    """Return the settings of the search with changes; None changes nothing.

    Raises:
        FocatError: a change is wrong.
    """
    tree = decoding.model_dump(include=set(SearchSettings.model_fields))
    tree |= {name: value for name, value in changes.items() if value is not None}
    return validate_tree(SearchSettings, tree, "decoding")


def dump_settings(settings: Settings) -> str:
    """Write settings as YAML that `load_settings` reads back, in whatever folder the YAML is kept."""
    return yaml.safe_dump(_plain(settings.model_dump()), sort_keys=False, allow_unicode=True)


def _plain(value: Any) -> Any:
    """Convert to what YAML can write; paths become absolute, since relative ones start from the file's folder."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return str(value.absolute()) if isinstance(value, Path) else value


def settings_schema() -> Tree:
    """Return the JSON schema of settings files, for editors."""
    schema = Settings.model_json_schema()
    one_or_more = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    schema["properties"] = {
        "base": {
            **one_or_more,
            "description": "Settings to start from: files beside this one, or recipes as focat:s4to4; later ones win.",
        },
        **schema["properties"],
    }
    return schema


# ------------------------------------------------------------------------------------------------- reading files


class _Loader(yaml.SafeLoader):
    """YAML loader whose strings know the folder of their file, and which refuses a key given twice."""

    folder: Path


def _string(loader: _Loader, node: yaml.ScalarNode) -> FileString:
    return FileString(str(loader.construct_scalar(node)), loader.folder)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Tree:
    tree: Tree = {}
    for key_node, value_node in node.value:
        key = str(loader.construct_object(key_node, deep=True))
        if key in tree:
            raise yaml.constructor.ConstructorError(None, None, f"'{key}' is given twice", key_node.start_mark)
        tree[key] = loader.construct_object(value_node, deep=True)
    return tree


_Loader.add_constructor("tag:yaml.org,2002:str", _string)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def _read_with_bases(path: Path, above: tuple[Path, ...]) -> Tree:
    if path.resolve() in above:
        raise FocatError(f"{path}: its base files lead back to itself; take one `base:` out")
    tree = _read(path)
    bases = tree.pop("base", None) or []
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise FocatError(f"{path}: base: should be the name of a settings file, or a list of names")
    merged: Tree = {}
    for base in bases:
        base_path = packaged_file(base, RECIPES, "recipe") or path.parent / Path(base).expanduser()
        if not base_path.is_file():
            raise FocatError(f"{path}: base: {base}: there is no file {base_path}")
        merged = merge_trees(merged, _read_with_bases(base_path, (*above, path.resolve())))
    return merge_trees(merged, tree)


def packaged_file(name: str, folder: Path, kind: str) -> Path | None:
    """Return the file in `folder` that `focat:NAME` names; None if `name` does not begin with `focat:`."""
    if not name.startswith(_RECIPE):
        return None
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    wanted = name.removeprefix(_RECIPE)
    if wanted not in names:
        near = difflib.get_close_matches(wanted, names, 1, 0.5)
        meant = f"; did you mean {_RECIPE}{near[0]}?" if near else ""
        raise FocatError(f"{name}: there is no such {kind}{meant} (there are: {', '.join(names)})")
    return folder / f"{wanted}.yaml"


def _read(path: Path) -> Tree:
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FocatError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.reader.ReaderError):
        raise FocatError(f"{path}: is not a text file in UTF-8") from None
    loader.folder = path.parent
    try:
        tree = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise FocatError(f"{path}, line {line}: not valid YAML: {error.problem}") from None
    except ValueError as error:  # what looks like a date or a number and is none, as 2024-13-45
        raise FocatError(f"{path}: not valid YAML: {error}") from None
    finally:
        loader.dispose()
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        kind = "a list" if isinstance(tree, list) else "a single value"
        raise FocatError(f"{path}: holds {kind}; expected sections such as `windows:` and `model:`")
    return tree


def merge_trees(under: Tree, over: Tree) -> Tree:
    """Merge two trees: sections are merged, any other value of `over` replaces that of `under`."""
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge_trees(merged[key], value) if both else value
    return merged


def _apply(tree: Tree, override: str) -> Tree:
    """Return the tree with one override; nothing is changed in place, because YAML aliases share their content."""
    name, equals, text = override.partition("=")
    if not equals or not name:
        raise FocatError(f"{short_text(override)}: an override is written key=value, as in windows.before=3")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        value = text

    def changed(here: Any, parts: list[str]) -> Any:
        if not parts:
            return value
        part, *rest = parts
        if not isinstance(here, list):
            section = here if isinstance(here, dict) else {}
            return {**section, part: changed(section.get(part), rest)}
        if not (part.isdecimal() and int(part) < len(here)):
            entries = f"entries 0 to {len(here) - 1}" if here else "no entries"
            raise FocatError(f"{short_text(override)}: there is no {part} in this list; it has {entries}")
        return [changed(item, rest) if i == int(part) else item for i, item in enumerate(here)]

    result: Tree = changed(tree, name.split("."))
    return result

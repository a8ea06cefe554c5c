"""From YAML files and `key=value` overrides to typed settings."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from typing_extensions import Unpack

from focat.config.explain import explain, short_text
from focat.config.schema import SAMPLING_SETTINGS, SearchOptions, SearchSettings, Settings
from focat.config.yaml_files import MAX_DEPTH, YamlLimitError, parse_yaml, read_yaml
from focat.errors import FocatError, ParameterError

Tree = dict[str, Any]
ModelT = TypeVar("ModelT", bound=BaseModel)

RECIPES = Path(__file__).parent.parent / "recipes"  # one settings file for each system, part of the package
_SECTIONS = ("data", "windows", "model", "objective", "training", "decoding")  # that every run has written
_NOT_SAMPLED = "has no effect without sample; turn sample on, or leave this out"
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


def load_whole_settings(path: Path, remedy: str) -> Settings:
    """Read settings that `dump_settings` wrote: all of them, in one file without `base:`.

    Raises:
        FocatError: the file cannot be read, names a base, or lacks a section; then the message ends with the remedy.
    """
    tree = read_yaml(path) or {}
    if "base" in tree:
        raise FocatError(f"{path}: base: all settings of a run are in this file; take it out")
    missing = [section for section in _SECTIONS if section not in tree]
    if missing:
        raise FocatError(f"{path}: has no section {missing[0]}; {remedy}")
    return validate_tree(Settings, tree, str(path))


def read_tree(path: Path) -> Tree:
    """Read a YAML file or a recipe, merged over its `base:` files, without validating it."""
    found = packaged_file(str(path), RECIPES, "recipe")
    if found is None:
        _check_settings_file(path)
    return _read_with_bases(found or path, (), {})


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
    decoding = validate_tree(Settings, tree, "settings").decoding
    for override in overrides:
        name = override.partition("=")[0].removeprefix("decoding.")
        if name in SAMPLING_SETTINGS and not decoding.sample:
            raise FocatError(f"{short_text(override)}: {_NOT_SAMPLED}")
    return settings.model_copy(update={"decoding": decoding})


def search_settings(decoding: SearchSettings, **changes: Unpack[SearchOptions]) -> SearchSettings:
    """Return the settings of the search with changes; None changes nothing.

    Raises:
        FocatError: a change is wrong.
    """
    tree = decoding.model_dump(include=set(SearchSettings.model_fields))
    given = {name: value for name, value in changes.items() if value is not None}
    found = validate_tree(SearchSettings, tree | given, "decoding")
    for name in SAMPLING_SETTINGS:
        if name in given and not found.sample:
            raise ParameterError(name, given[name], _NOT_SAMPLED)
    if "beam" in given and found.sample:
        raise ParameterError("beam", given["beam"], "has no effect with sample; leave one of the two out")
    return found


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


def _check_settings_file(path: Path) -> None:
    """Name what is meant by the folder of a run, or by the name of a recipe without its prefix."""
    if path.is_dir():
        has_settings = (path / "config.yaml").is_file()
        remedy = f"its settings are in {path / 'config.yaml'}" if has_settings else "give a settings file (YAML)"
        raise FocatError(f"{path}: is a folder; {remedy}")
    if (RECIPES / f"{path}.yaml").is_file() and not os.path.lexists(path):
        raise FocatError(f"{path}: no such file; the recipe is {_RECIPE}{path}")


def _read_with_bases(path: Path, above: tuple[Path, ...], read: dict[Path, Tree]) -> Tree:
    """Read a file, merged over its bases; `read` holds what was read before, so that each file is read once."""
    own = Path(os.path.realpath(path))  # unlike resolve, no error where a link leads back to itself
    if own in above:
        raise FocatError(f"{path}: its base files lead back to itself; take one `base:` out")
    if len(above) == MAX_DEPTH:
        raise FocatError(f"{path}: is the base of {MAX_DEPTH} files, each the base of the next; take one `base:` out")
    if own in read:
        return read[own]
    tree = read_yaml(path) or {}
    bases = tree.pop("base", None) or []
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise FocatError(f"{path}: base: should be the name of a settings file, or a list of names")
    merged: Tree = {}
    for base in bases:
        base_path = packaged_file(base, RECIPES, "recipe") or path.parent / Path(base).expanduser()
        if not base_path.is_file():
            raise FocatError(f"{path}: base: {base}: there is no file {base_path}")
        merged = merge_trees(merged, _read_with_bases(base_path, (*above, own), read))
    read[own] = merge_trees(merged, tree)
    return read[own]


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
    parts = name.split(".")
    if len(parts) > MAX_DEPTH:
        raise FocatError(f"{short_text(override)}: no setting is so deep")
    try:
        value = parse_yaml(text)
    except YamlLimitError as error:
        raise FocatError(f"{short_text(override)}: cannot be used: {error.problem}") from None
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

    result: Tree = changed(tree, parts)
    return result

"""From YAML files and `key=value` overrides to settings; what is wrong with them, in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from focat.config.data import Located
from focat.config.schema import Settings
from focat.errors import FocatError

Tree = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)

RECIPES = Path(__file__).parent.parent / "recipes"  # one settings file for each system, part of the package
_RECIPE = "focat:"  # how a recipe is named where a settings file is expected


def load_settings(path: Path, overrides: Sequence[str] = ()) -> Settings:
    """The settings in `path`, over those of its `base:` files, under the overrides; `focat:NAME` is a recipe."""
    return validated(Settings, overridden(read_tree(path), overrides), str(path))


def read_tree(path: Path) -> Tree:
    """What a YAML file or a recipe says, over its `base:` files, not yet validated."""
    return _read_with_bases(packaged(str(path), RECIPES, "recipe") or path, ())


def overridden(tree: Tree, overrides: Sequence[str]) -> Tree:
    """The tree under `key=value` overrides."""
    for override in overrides:
        tree = _apply(tree, override)
    return tree


def validated(root: type[Model], tree: Tree, where: str) -> Model:
    """The typed form of a tree; what is wrong with it, in one line that begins with `where`."""
    try:
        return root.model_validate(tree)
    except ValidationError as error:
        raise FocatError(f"{where}: {_explain(error, tree, root)}") from None


def dump_settings(settings: Settings) -> str:
    """The settings as YAML that `load_settings` reads back, in whatever folder the YAML is kept."""
    return yaml.safe_dump(_plain(settings.model_dump()), sort_keys=False, allow_unicode=True)


def _plain(value: Any) -> Any:
    """What YAML can write; a path becomes absolute, since a relative one would change its meaning with its file."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return str(value.absolute()) if isinstance(value, Path) else value


def settings_schema() -> Tree:
    """A JSON schema of settings files, for editors."""
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
    """YAML whose strings remember their file's folder, and where a key given twice is an error."""

    folder: Path


def _string(loader: _Loader, node: yaml.ScalarNode) -> Located:
    return Located(str(loader.construct_scalar(node)), loader.folder)


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
        base_path = packaged(base, RECIPES, "recipe") or path.parent / Path(base).expanduser()
        if not base_path.is_file():
            raise FocatError(f"{path}: base: {base}: there is no file {base_path}")
        merged = merge(merged, _read_with_bases(base_path, (*above, path.resolve())))
    return merge(merged, tree)


def packaged(name: str, folder: Path, kind: str) -> Path | None:
    """The file of a recipe (or of another kind) that comes with focat, if that is what `focat:NAME` names."""
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


def merge(under: Tree, over: Tree) -> Tree:
    """Sections are merged, anything else is replaced."""
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def _apply(tree: Tree, override: str) -> Tree:
    """The settings with one of them changed; nothing is changed in place, for YAML's aliases share their content."""
    name, equals, text = override.partition("=")
    if not equals or not name:
        raise FocatError(f"{_shown(override)}: an override is written key=value, as in windows.before=3")
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
            raise FocatError(f"{_shown(override)}: there is no {part} in this list; it has {entries}")
        return [changed(item, rest) if i == int(part) else item for i, item in enumerate(here)]

    overridden: Tree = changed(tree, name.split("."))
    return overridden


# -------------------------------------------------------------------------------------------- explaining errors


_NO_SCALAR = ("int_type", "float_type")


def _explain(error: ValidationError, tree: Tree, root: type[BaseModel] = Settings) -> str:
    """The first setting that is wrong: its name, its value, what is allowed, and the nearest valid name."""
    details = error.errors()
    # Where a section is one of several choices, what is wrong inside it says more than that it is no number.
    details = [d for d in details if not (isinstance(d["input"], dict) and d["type"] in _NO_SCALAR)] or details
    # A name that does not exist is often the reason why another is missing.
    details.sort(key=lambda detail: detail["type"] != "extra_forbidden")
    problems: dict[str, list[str]] = {}
    for detail in details:
        name = _name(detail["loc"], tree, keep_last=detail["type"] == "missing")
        given = detail["input"]
        value = "" if detail["type"] == "missing" or isinstance(given, dict | BaseModel) else f" = {_shown(given)}"
        problems.setdefault(f"{_shown(name)}{value}", []).append(_what_is_wrong(detail, name, root))
    (subject, messages), *others = problems.items()
    text = f"{subject}: " if subject else ""
    text += ", or ".join(dict.fromkeys(messages))
    return text + (f" (and {len(others)} more)" if others else "")


def _shown(value: object) -> str:
    """Any value, on one line of bearable length."""
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else text[:79] + "…"


def _what_is_wrong(detail: Any, name: str, root: type[BaseModel]) -> str:
    context, location = detail.get("ctx", {}), detail["loc"]
    match detail["type"]:
        case "extra_forbidden":
            return _no_such(name, location[:-1], root)
        case "missing":
            return "is needed and not given"
        case "literal_error":
            return f"should be {context['expected']}{_nearest_choice(str(detail['input']), context['expected'])}"
        case "union_tag_invalid" if not isinstance(detail["input"], dict):  # a text's own method `format` is no tag
            return _no_corpus(location, root)
        case "union_tag_invalid":
            near = _nearest_choice(context["tag"], context["expected_tags"])
            return f"format {context['tag']} should be one of {context['expected_tags']}{near}"
        case "union_tag_not_found":
            return _no_corpus(location, root)
        case "model_type" | "model_attributes_type":
            fields = [name for model in _models_at(location, root) for name in model.model_fields]
            return f"should be a section with {', '.join(fields)}"
        case "tuple_type":
            return "should be a list"
        case "path_type":
            return "should be a path"
        case "too_short":
            return f"should have at least {context['min_length']}"
    message = str(detail["msg"]).removeprefix("Input ").removeprefix("Value error, ")
    message = message.replace("a valid integer", "a whole number").replace("a valid number", "a number")
    return message.partition(", unable to parse")[0]


def _no_corpus(location: tuple[int | str, ...], root: type[BaseModel]) -> str:
    tags = [_tag(model) or "" for model in _models_at(location, root) if _tag(model)]
    return f"should be a corpus, a section with a format: one of {', '.join(tags)}"


def _name(location: tuple[int | str, ...], tree: Any, keep_last: bool) -> str:
    """The dotted name of a place; pydantic's location also holds the names of union members, which are dropped."""
    parts: list[str] = []
    here = tree
    for i, part in enumerate(location):
        inside = part in here if isinstance(here, dict) else isinstance(here, list) and part in range(len(here))
        if inside:
            here = here[part]
        if inside or (keep_last and i == len(location) - 1):
            parts.append(str(part))
    return ".".join(parts)


def _no_such(dotted: str, location: tuple[int | str, ...], root: type[BaseModel]) -> str:
    section, dot, name = dotted.rpartition(".")
    names = sorted({field for model in _models_at(location, root) for field in model.model_fields})
    everywhere = list(_all_names(root))
    near = (
        [n for n in everywhere if n.rpartition(".")[2] == name]  # the right name in the wrong place
        or [section + dot + n for n in difflib.get_close_matches(name, names, 1, 0.6)]
        or [n for n in everywhere if difflib.get_close_matches(name, [n.rpartition(".")[2]], 1, 0.75)]
    )
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"there is no such setting{meant} (here: {', '.join(names)})"


def _nearest_choice(given: str, allowed: str) -> str:
    choices = [choice.strip("' ") for choice in allowed.replace(" or ", ", ").split(", ")]
    near = difflib.get_close_matches(given, choices, 1, 0.5)
    return f"; did you mean {near[0]}?" if near else ""


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections inside a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _tag(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("format")
    if field is None or get_origin(field.annotation) is not Literal:
        return None
    return str(get_args(field.annotation)[0])


def _models_at(location: tuple[int | str, ...], root: type[BaseModel]) -> list[type[BaseModel]]:
    models: list[type[BaseModel]] = [root]
    named = False  # whether the next part is a name that the user chose, as that of a system in a plan
    for part in location:
        if isinstance(part, int) or named:
            named = False
            continue
        fields = [model.model_fields[part] for model in models if part in model.model_fields]
        if fields:
            models = [inner for field in fields for inner in _models(field.annotation)]
            named = any(get_origin(field.annotation) is dict for field in fields)
        else:
            models = [model for model in models if part == _tag(model) or model.__name__ in part]
    return models


def _all_names(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        yield prefix + name
        for inner in _models(field.annotation):
            if _tag(inner) is None:
                yield from _all_names(inner, f"{prefix}{name}.")

"""What is wrong with settings that do not validate, in one line that a user can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

RENAMED = {  # settings of earlier versions
    "data.cleaning.max_ratio": "data.cleaning.max_length_ratio",
    "decoding.max_extra": "decoding.max_length_offset",
    "decoding.max_ratio": "decoding.max_length_ratio",
    "model.feedforward": "model.d_ff",
    "model.width": "model.d_model",
    "training.batches_per_update": "training.gradient_accumulation",
    "training.keep": "training.keep_checkpoints",
    "training.run": "training.output_dir",
    "training.samples": "training.log_samples",
    "windows.sizes": "windows.sampling",
}
_NO_SCALAR = ("int_type", "float_type")


def explain(error: ValidationError, tree: dict[str, Any], root: type[BaseModel]) -> str:
    """Describe the first wrong setting in one line: its name, its value, what is allowed, and the nearest valid name.

    Args:
        tree: what was validated, to tell names of settings from names of union members in pydantic's locations.
        root: the model it was validated against.
    """
    details = error.errors()
    # Where a section is one of several choices, what is wrong inside it says more than that it is no number.
    details = [d for d in details if not (isinstance(d["input"], dict) and d["type"] in _NO_SCALAR)] or details
    # A name that does not exist is often the reason why another is missing.
    details.sort(key=lambda detail: detail["type"] != "extra_forbidden")
    problems: dict[str, list[tuple[Any, str]]] = {}
    for detail in details:
        name = _name(detail["loc"], tree, keep_last=detail["type"] == "missing")
        given = detail["input"]
        value = "" if detail["type"] == "missing" or isinstance(given, dict | BaseModel) else f" = {short_text(given)}"
        problems.setdefault(f"{short_text(name)}{value}", []).append((detail, name))
    (subject, found), *others = problems.items()
    text = f"{subject}: " if subject else ""
    text += ", or ".join(dict.fromkeys(_problem(detail, name, root) for detail, name in found))
    return text + (f" (and {len(others)} more)" if others else "")


def short_text(value: object) -> str:
    """Return the text of a value, as YAML has it, on one line of at most 80 characters."""
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    text = " ".join(shown.split())
    return text if len(text) <= 80 else text[:79] + "…"


def _problem(detail: Any, name: str, root: type[BaseModel]) -> str:
    context, location = detail.get("ctx", {}), detail["loc"]
    match detail["type"]:
        case "extra_forbidden":
            return _no_such(name, location[:-1], root)
        case "missing":
            return "is needed and not given"
        case "literal_error":
            return f"should be {context['expected']}{_nearest_choice(str(detail['input']), context['expected'])}"
        case "union_tag_invalid" if not isinstance(
            detail["input"], dict
        ):  # pydantic takes a string's method `format` for the tag
            return _no_corpus(location, root)
        case "union_tag_invalid":
            near = _nearest_choice(context["tag"], context["expected_tags"])
            return f"format {context['tag']} should be one of {context['expected_tags']}{near}"
        case "union_tag_not_found":
            return _no_corpus(location, root)
        case "model_type" | "model_attributes_type" if len(_models_at(location, root)) > 1:
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
    """Return the dotted name of a location; pydantic adds the names of union members, which are dropped."""
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
    if dotted in RENAMED:
        return f"is now called {RENAMED[dotted]}"
    section, dot, name = dotted.rpartition(".")
    names = sorted({field for model in _models_at(location, root) for field in model.model_fields})
    everywhere = list(_all_names(root))
    near = (
        [n for n in everywhere if n.rpartition(".")[2] == name]  # the right name in another section
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
    """Yield the sections inside a type annotation."""
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

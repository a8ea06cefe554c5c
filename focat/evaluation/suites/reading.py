"""Read a suite from its file, plain or compressed; its content decides which format it has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from focat.corpus.text_files import DECOMPRESSORS, open_bytes
from focat.errors import FocatError
from focat.evaluation.results import SuiteFormat
from focat.evaluation.suites.contrapro import ContextFiles, ContextFolder, contrapro_instances
from focat.evaluation.suites.ctxpro import ctxpro_instances
from focat.evaluation.suites.discevalmt import discevalmt_instances
from focat.evaluation.suites.formats import own_instances, phenomenon_of, voita_instances
from focat.evaluation.suites.instance import Instance, Suite, contrasts
from focat.files import digest_of

_MAX_BYTES = 256 << 20  # ten times the largest that is published
WITHOUT_CONTEXT: tuple[SuiteFormat, ...] = ("contrapro", "ctxpro")
"""Formats whose files do not hold the context."""


def read_suite(path: Path, context: ContextFiles | ContextFolder | None = None) -> Suite:
    """Read a suite; `context` is where the context of ContraPro or CTXPro is, which their own files do not hold."""
    raw = _raw(path)
    try:
        text = raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise FocatError(f"{path}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    name, where = suite_name(path), str(path)
    content = _content(text, path)
    if not content:
        raise FocatError(f"{path}: holds no instance")
    kind = _kind(next(iter(content.values())) if isinstance(content, dict) else content[0], where)
    if context is not None and kind not in WITHOUT_CONTEXT:
        raise FocatError(f"{path}: has its context inside; context files and folders are for suites like ContraPro")
    if isinstance(content, dict) != (kind == "discevalmt"):
        raise FocatError(f"{path}: no suite that is known: neither a list, nor a line for each instance")
    instances: list[Instance]
    generative: list[Instance] = []
    if isinstance(content, dict):
        instances = discevalmt_instances(content, name, where)
    elif kind == "voita":
        instances = voita_instances(content, phenomenon_of(name), where)
    elif kind == "contrapro":
        instances = contrapro_instances(content, context, where=where)
    elif kind == "ctxpro":
        generative = ctxpro_instances(content, context, phenomenon_of(name), where)
        instances = contrasts(generative)
    else:
        instances = own_instances(content, name, where, "entry" if text.lstrip().startswith("[") else "line")
    has_context = kind not in WITHOUT_CONTEXT or context is not None
    digest = ""
    if context is not None:
        digest = digest_of([[*i.source[:-1], *i.target] for i in generative or instances])
    return Suite(name, kind, instances, hashlib.sha256(raw).hexdigest(), has_context, digest, generative)


def read_suites(
    paths: Sequence[Path],
    context: ContextFiles | ContextFolder | None = None,
    without: str | None = "give context_source and context_target",
    generative: bool = False,
) -> list[Suite]:
    """Read suites, of different names; the one in the format of ContraPro or CTXPro takes the context.

    Args:
        paths: their files.
        context: where the context is that is not in its suite.
        without: what to do about a suite without context; None where it needs none.
        generative: whether instances are wanted that only their translations can answer.
    """
    suites: list[Suite] = []
    for path in paths:
        suite = read_suite(path)
        if not suite.has_context and context is not None:
            suite, context = read_suite(path, context), None
        if not suite.has_context and without is not None:
            raise FocatError(f"{path}: its context is in other files; {without}")
        if suite.name in [other.name for other in suites]:
            raise FocatError(f"{path}: another suite is called {suite.name} too; results could not be told apart")
        suites.append(suite if generative else contrastive_suite(suite, path))
    if context is not None:
        raise FocatError("context files and folders are for a suite like ContraPro: give one, or leave them out")
    return suites


def contrastive_suite(suite: Suite, path: Path) -> Suite:
    """Return a suite without the instances that only their translations can answer."""
    if not suite.instances:
        raise FocatError(f"{path}: has no candidates to compare; `focat contrast` judges translations of it")
    return replace(suite, generative=())


def context_files(source: Path | None, target: Path | None) -> ContextFiles | None:
    """Return the files of a suite's context; None if they are not given. CTXPro has only one, of the source."""
    if source is None and target is not None:
        raise FocatError("give both of context_source and context_target, or neither")
    return None if source is None else ContextFiles(source, target)


def suite_name(path: Path) -> str:
    """Return the name of a suite: deixis_test, from deixis_test.json.xz."""
    name = path.stem if path.suffix.lower() in DECOMPRESSORS else path.name
    for ending in (".json", ".jsonl"):
        name = name.removesuffix(ending)
    return name


def _raw(path: Path) -> bytes:
    try:
        with open_bytes(path) as stream:
            raw = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise FocatError(f"{path}: cannot be read ({error.strerror or error})") from None
    if len(raw) > _MAX_BYTES:
        raise FocatError(f"{path}: is larger than {_MAX_BYTES >> 20} MiB; split the suite into several files")
    return raw


def _kind(entry: object, where: str) -> SuiteFormat:
    fields = entry.keys() if isinstance(entry, dict) else ()
    if "dst" in fields:
        return "voita"
    if "expected" in fields and "rule" in fields:
        return "ctxpro"
    if "src segment" in fields or "ref segment" in fields:
        return "contrapro"
    if "candidates" in fields:
        return "own"
    if "trg" in fields or "examples" in fields:
        return "discevalmt"
    raise FocatError(
        f"{where}: no suite that is known: the first entry has none of `dst` (Voita et al.), `src segment` (ContraPro, "
        "CTXPro), `trg` (Bawden et al.) and `candidates` (our own)"
    )


def _content(text: str, path: Path) -> list[object] | dict[str, object]:
    """A list of entries, an object of blocks (Bawden et al.), or a line of JSON for each instance."""
    if not text.strip():
        return []
    if not text.lstrip().startswith(("[", "{\n", "{\r")):
        return _json_lines(text, path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FocatError(f"{path}: not JSON that can be read ({error})") from None
    return content if isinstance(content, dict) else list(content)


def _json_lines(text: str, path: Path) -> list[object]:
    entries = []
    for number, line in enumerate(text.rstrip().split("\n"), 1):
        try:
            entries.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            what = (
                "is empty; every line holds one instance"
                if not line.strip()
                else f"not JSON that can be read ({error})"
            )
            raise FocatError(f"{path}, line {number}: {what}") from None
    return entries

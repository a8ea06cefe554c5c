"""Read a suite from its file, plain or compressed; its content decides which format it has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from focat.corpus.text_files import DECOMPRESSORS, open_bytes
from focat.errors import FocatError
from focat.evaluation.results import SuiteFormat
from focat.evaluation.suites.contrapro import ContextFiles, ContextFolder, contrapro_instances
from focat.evaluation.suites.formats import own_instances, phenomenon_of, voita_instances
from focat.evaluation.suites.instance import Instance, Suite
from focat.files import digest_of

_MAX_BYTES = 256 << 20  # ten times the largest that is published


def read_suite(path: Path, context: ContextFiles | ContextFolder | None = None) -> Suite:
    """Read a suite; `context` is where the context of ContraPro is, which its own file does not hold."""
    try:
        with open_bytes(path) as stream:
            raw = stream.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise FocatError(f"{path}: is larger than {_MAX_BYTES >> 20} MiB; split the suite into several files")
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise FocatError(f"{path}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise FocatError(f"{path}: cannot be read ({error.strerror or error})") from None
    name, where = suite_name(path), str(path)
    lines = not text.lstrip("\ufeff \t\r\n").startswith("[")
    entries = [] if not text.strip() else _json_lines(text, path) if lines else _json(text, where)
    if not entries:
        raise FocatError(f"{path}: holds no instance")
    kind = _kind(entries[0], where)
    if context is not None and kind != "contrapro":
        raise FocatError(f"{path}: has its context inside; context files and folders are for suites like ContraPro")
    instances: list[Instance]
    if kind == "voita":
        instances = voita_instances(entries, phenomenon_of(name), where)
    elif kind == "contrapro":
        instances = contrapro_instances(entries, context, where=where)
    else:
        instances = own_instances(entries, name, where, "line" if lines else "entry")
    has_context = kind != "contrapro" or context is not None
    digest = digest_of([[*i.source[:-1], *i.target] for i in instances]) if context is not None else ""
    return Suite(name, kind, instances, hashlib.sha256(raw).hexdigest(), has_context, digest)


def read_suites(
    paths: Sequence[Path],
    context: ContextFiles | ContextFolder | None = None,
    without: str | None = "give context_source and context_target",
) -> list[Suite]:
    """Read suites, of different names; the one in the format of ContraPro takes the context.

    `without` says what to do about a suite without context; None where it needs none.
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
        suites.append(suite)
    if context is not None:
        raise FocatError("context files and folders are for a suite like ContraPro: give one, or leave them out")
    return suites


def context_files(source: Path | None, target: Path | None) -> ContextFiles | None:
    """Return the two files of a suite's context; None if they are not given."""
    if (source is None) != (target is None):
        raise FocatError("give both of context_source and context_target, or neither")
    return None if source is None or target is None else ContextFiles(source, target)


def suite_name(path: Path) -> str:
    """Return the name of a suite: deixis_test, from deixis_test.json.xz."""
    name = path.stem if path.suffix.lower() in DECOMPRESSORS else path.name
    for ending in (".json", ".jsonl"):
        name = name.removesuffix(ending)
    return name


def _kind(entry: object, where: str) -> SuiteFormat:
    fields = entry.keys() if isinstance(entry, dict) else ()
    if "dst" in fields:
        return "voita"
    if "src segment" in fields or "ref segment" in fields:
        return "contrapro"
    if "candidates" in fields:
        return "own"
    raise FocatError(
        f"{where}: no suite that is known: the first entry has none of `dst` (Voita et al.), `src segment` (ContraPro) "
        "and `candidates` (our own)"
    )


def _json(text: str, where: str) -> list[object]:
    try:
        entries = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise FocatError(f"{where}: not JSON that can be read ({error})") from None
    return list(entries)


def _json_lines(text: str, path: Path) -> list[object]:
    entries = []
    for number, line in enumerate(text.removeprefix("\ufeff").rstrip().split("\n"), 1):
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

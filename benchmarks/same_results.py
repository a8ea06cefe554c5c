"""Shows that two checkouts of focat give the same results: what one computes is recorded, and two records are compared.

    python -m benchmarks.same_results record --checkout OLD --work old --output old.json
    python -m benchmarks.same_results record --checkout NEW --work new --output new.json
    python -m benchmarks.same_results compare old.json new.json --renames renames.yaml --expected expected.yaml
    python -m benchmarks.same_results words

`record` runs the command line of a checkout on the generated corpus, on the CPU with one thread: it prepares a store,
trains four small systems, translates, contrasts, scores, evaluates, compares, analyses, runs a short demo, and builds
the tables of results/. It takes about four minutes. Two records are comparable if they were made on the same machine
with the same libraries.

`compare` goes through them tensor by tensor, line by line and figure by figure; nothing is rounded. It exits with 1 if
anything differs that is not expected to. Renames are a YAML file of regular expressions and their replacements, which
are applied to the first record, in this order:

    tensors: {'\\bqueries_keys_values\\b': qkv_proj}      names of tensors
    keys: {'\\bmean-then-entropy\\b': entropy_of_mean}    names of all other figures
    text: {'by current-sum': 'rule current-sum'}         what was printed, and figures that are text; not translations

Expected differences are a YAML file too: a regular expression for all of ITEM or ITEM/KEY, and the reason.

    'translate\\.srt\\.lines': lines were broken one word too early

Command lines and the form of result files are data of `same_results_commands`; `words` lists all words of commands.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from benchmarks.same_results_commands import (
    AVERAGED,
    BUILD,
    COMMANDS,
    DIALECTS,
    EXTRACT,
    LOG,
    NORMAL,
    NOT_RESULTS,
    OPTIMIZER,
    PAGE,
    PRINTED,
    RUNS,
    SCRIPTS,
    STORE,
    TABLES,
    WEIGHTS,
    Item,
    digest,
    flat,
)

_LIBRARIES = ("torch", "numpy", "scipy", "sacrebleu", "sentencepiece", "matplotlib")
_WRITTEN = {".json": "figures", ".jsonl": "entries", ".txt": "lines"}
_BLOCK = re.compile(r"<!-- (?!end)(.+?) -->\n(.*?)<!-- end -->", re.DOTALL)  # a table of docs/results.md

# ------------------------------------------------------------------------------------------------ record


class Recorder:
    """Runs one checkout in a folder of its own, and collects what comes out."""

    def __init__(self, checkout: Path, work: Path) -> None:
        self.checkout, self.work = checkout.resolve(), work.resolve()
        self.dialect = "after" if (self.checkout / "focat" / "_version.py").exists() else "before"
        self.used: set[str] = set()
        self.items: dict[str, Item] = {}
        single = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        plain = {"COLUMNS": "1000", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment = {**os.environ, **single, **plain, "PYTHONPATH": str(self.checkout)}

    def everything(self) -> None:
        """All of it, one after the other."""
        where = Path(self.run("-c", "import focat; print(focat.__file__)").strip())
        if self.checkout not in where.parents:
            sys.exit(f"{self.checkout}: focat was imported from {where} instead")
        self.timed("inputs", self.inputs)
        for name in COMMANDS:
            self.timed(name, partial(self.command, name))
        self.items["store"] = self.digests("store", *STORE)
        for run in RUNS:
            self.items[f"weights.{run}"] = _tensors(self.files(run, WEIGHTS)[-1])
            self.items[f"optimizer.{run}"] = _tensors(self.files(run, OPTIMIZER)[-1])
            self.items[f"log.{run}"] = _read(self.files(run, LOG)[0], "log")
        self.items["weights.other.averaged"] = _tensors(self.files("other", AVERAGED)[0])
        self.items["demo.tables"] = _lines(self.files("demo", TABLES)[0].read_text(encoding="utf-8"))
        self.timed("python", partial(self.script, "python"))
        self.items["python"] = _read(self.work / "python.json", "python")
        self.timed("results", self.results)
        for unknown in sorted(DIALECTS[self.dialect].keys() - self.used):
            print(f"DIALECTS: {unknown!r} is nowhere", file=sys.stderr)

    def timed(self, name: str, work: Callable[[], Any]) -> None:
        """Do it, and say how long it took."""
        start = time.monotonic()
        work()
        print(f"{name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)

    def inputs(self) -> None:
        """Make the files to work on."""
        self.script("inputs")
        self.items["inputs"] = self.digests(".", "*.*", "suites/*")

    def command(self, name: str) -> None:
        """Run a command, and keep what it wrote and printed."""
        printed, kind = self.run("-m", "focat", *self.words(name)), name.partition(".")[0]
        for ending, what in _WRITTEN.items():
            path = self.work / f"{name}{ending}"
            if path.exists():
                self.items[f"{name}.{what}"] = _read(path, kind)
        if printed and kind not in ("train", "demo"):  # these print times
            printed = printed.replace(str(self.work), "WORK").replace(str(self.checkout), "CHECKOUT")
            lines = (_replaced(line, PRINTED).strip() for line in _replaced(printed, NORMAL).splitlines())
            self.items[f"{name}.printed"] = _lines("\n".join(filter(None, lines)))  # without the frames of tables

    def results(self) -> None:
        """Empty the tables of the page of results in a copy, and have them filled again."""
        page, build = (Path(self.spelled(path) or path) for path in (PAGE, BUILD))
        for folder in {page.parts[0], build.parts[0]}:
            shutil.copytree(self.checkout / folder, self.work / folder)
        page = self.work / page
        emptied = _BLOCK.sub(r"<!-- \1 -->\n<!-- end -->", page.read_text(encoding="utf-8"))
        page.write_text(emptied, encoding="utf-8")
        self.run(str(build))
        for name, table in _BLOCK.findall(page.read_text(encoding="utf-8")):
            self.items[f"results.{name}"] = _lines(table)

    def words(self, name: str) -> list[str]:
        """A command line in the dialect."""
        command, *rest = shlex.split(self.spelled(f"line {name}") or COMMANDS[name])
        line = shlex.split(self.spelled(command) or command)
        for word in (word.replace("@", name) for word in rest):
            start, sign, value = word.partition("=")
            key = start.removeprefix("settings.")  # of all systems of a plan
            whole, of_key = self.spelled(f"{command} {word}", word), self.spelled(f"{command} {key}", key)
            if whole is None and of_key is None:
                line.append(word)
            elif whole is not None:
                line += shlex.split(whole)
            elif of_key:
                line.append(f"{start.removesuffix(key)}{of_key}{sign}{value}")
        return line

    def spelled(self, *spellings: str) -> str | None:
        """What the dialect has instead of the first of these that it knows."""
        known = DIALECTS[self.dialect]
        found = next((spelling for spelling in spellings if spelling in known), None)
        self.used |= {found} if found is not None else set()
        return None if found is None else known[found]

    def run(self, *arguments: str) -> str:
        """Python, with focat as the checkout has it; returns what was printed."""
        words = [sys.executable, *arguments]
        done = subprocess.run(words, cwd=self.work, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            said = f"{done.stdout[-1000:]}{done.stderr[-3000:]}"
            sys.exit(f"{shlex.join(arguments)[:1000]}: exit code {done.returncode}\n{said}")
        return done.stdout

    def script(self, name: str) -> None:
        """Run a script in the dialect."""
        text = self.spelled(f"script {name}") or SCRIPTS[name]
        self.run("-c", re.sub(r"\bfocat(\.\w+)+", lambda module: self.spelled(module[0]) or module[0], text))

    def files(self, folder: str, pattern: str) -> list[Path]:
        """Files that were written, in order of their names; there must be some."""
        found = sorted((self.work / folder).glob(self.spelled(pattern) or pattern))
        return found or sys.exit(f"{self.work / folder}: holds no {pattern}")

    def digests(self, folder: str, *patterns: str) -> Item:
        """Of all files by these patterns."""
        root = self.work / folder
        found = [path for pattern in patterns for path in self.files(folder, pattern)]
        return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def record(checkout: Path, work: Path, output: Path) -> None:
    """Write the record of a checkout."""
    work.mkdir(parents=True, exist_ok=True)
    if any(work.iterdir()):
        sys.exit(f"{work}: is not empty; give another folder")
    start, recorder = time.monotonic(), Recorder(checkout, work)
    recorder.everything()
    content = {
        "dialect": recorder.dialect,
        "machine": [_processor(), platform.python_version(), *(f"{name} {version(name)}" for name in _LIBRARIES)],
        "digests": {name: digest(item) for name, item in recorder.items.items()},
        "items": recorder.items,
    }
    output.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{output}: {len(recorder.items)} items, {time.monotonic() - start:.0f} s", file=sys.stderr)


def _processor() -> str:
    described = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"model name\s*: (.+)", described)
    return found[1] if found else platform.machine()


def _read(path: Path, kind: str) -> Item:
    """The results in a file that a command of this kind wrote."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".txt":
        return _lines(text)
    content = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
    figures = EXTRACT.get(f"{kind}{path.suffix}", flat)(content)
    kept = {key: value for key, value in figures.items() if not NOT_RESULTS.search(key)}
    return {key: _replaced(value, NORMAL) if isinstance(value, str) else value for key, value in kept.items()}


def _lines(text: str) -> Item:
    return {f"line {i}": line for i, line in enumerate(text.split("\n"), 1)}


def _replaced(text: str, replacements: Mapping[str, str]) -> str:
    for pattern, replacement in replacements.items():
        text = re.sub(pattern, replacement, text)
    return text


def _tensors(path: Path) -> Item:
    """Every tensor of a safetensors file: its type, its shape, and a digest of its bytes."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    found = {}
    for name, about in json.loads(content[8:start]).items():
        if name != "__metadata__":
            first, last = (start + offset for offset in about["data_offsets"])
            sha256 = hashlib.sha256(content[first:last]).hexdigest()
            found[name] = f"{about['dtype']} {'x'.join(map(str, about['shape']))} {sha256}"
    return found


# ------------------------------------------------------------------------------------------------ compare


def compare(before: Path, after: Path, renames: Path | None, expected: Path | None, most: int) -> int:
    """Say what is equal and what is not; returns how many items differ that should not."""
    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (before, after))
    if old["machine"] != new["machine"]:
        print(f"note: made on other machines or with other libraries: {old['machine']}, {new['machine']}")
    reasons: dict[str, str] = _yaml(expected)
    items = _renamed(old["items"], _yaml(renames))
    unequal, equal, needed = 0, 0, set()
    for name in dict.fromkeys([*items, *new["items"]]):
        mine, theirs = items.get(name, {}), new["items"].get(name, {})
        differing = [key for key in dict.fromkeys([*mine, *theirs]) if not _same(mine, theirs, key)]
        excused = {key: reason for key in differing if (reason := _reason(reasons, name, key))}
        wrong = [key for key in differing if key not in excused]
        unequal += bool(wrong)
        needed |= set(excused.values())
        equal += not differing
        state = "DIFFERS" if wrong else "expected" if excused else "equal"
        count = f"{len(differing)} of {len(mine | theirs)} differ" if differing else f"all {len(mine)} the same"
        print(f"{state:<9}{name}: {count} ({digest(mine)[:8]}, {digest(theirs)[:8]})")
        for reason in dict.fromkeys(excused.values()):
            print(f"           {reason}")
        for key in wrong[:most]:
            print(f"           {key}: {_shown(mine, key)} -> {_shown(theirs, key)}")
        if len(wrong) > most:
            print(f"           and {len(wrong) - most} more")
    for at in (at for at, reason in reasons.items() if reason not in needed):
        print(f"note: {at!r} was expected to differ, and does not")
    print(f"{equal} items are equal, {unequal} differ, {len(items | new['items']) - equal - unequal} as expected")
    return unequal


def _yaml(path: Path | None) -> dict[str, Any]:
    return {} if path is None else yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def _renamed(items: Mapping[str, Item], renames: Mapping[str, Mapping[str, str]]) -> dict[str, Item]:
    """A record's items with the names of the other one."""
    unknown = renames.keys() - {"tensors", "keys", "text"}
    if unknown:
        sys.exit(f"renames: give tensors, keys and text, not {', '.join(sorted(unknown))}")
    found: dict[str, Item] = {}
    for name, item in items.items():
        names = renames.get("tensors" if name.startswith(("weights.", "optimizer.")) else "keys", {})
        texts = {} if name.startswith("translate.") else renames.get("text", {})
        if name.startswith("results."):  # named after what the page asks for
            name = _replaced(name, names)
        found[name] = {
            _replaced(key, names): _replaced(value, texts) if isinstance(value, str) else value
            for key, value in item.items()
        }
        if len(found[name]) < len(item):
            sys.exit(f"renames: {name}: two names became the same one")
    return found


def _same(mine: Item, theirs: Item, key: str) -> bool:
    return key in mine and key in theirs and json.dumps(mine[key]) == json.dumps(theirs[key])


def _reason(reasons: Mapping[str, str], name: str, key: str) -> str | None:
    found = (reason for at, reason in reasons.items() if re.fullmatch(at, name) or re.fullmatch(at, f"{name}/{key}"))
    return next(found, None)


def _shown(item: Item, key: str) -> str:
    text = json.dumps(item[key], ensure_ascii=False) if key in item else "(none)"
    return text if len(text) <= 150 else f"{text[:147]}..."


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.same_results", description=(__doc__ or "").split("\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run a checkout, and write what came out")
    recording.add_argument("--checkout", type=Path, required=True, help="folder that holds focat/ and results/")
    recording.add_argument("--work", type=Path, required=True, help="empty folder to work in")
    recording.add_argument("--output", type=Path, required=True, help="the record, as JSON")
    comparing = commands.add_parser("compare", help="compare two records; exit code 1 if they differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--renames", type=Path, metavar="FILE.yaml", help="names of the first in the second")
    comparing.add_argument("--expected", type=Path, metavar="FILE.yaml", help="what may differ, and why")
    comparing.add_argument("--most", type=int, default=5, help="differences to show of an item (default: 5)")
    commands.add_parser("words", help="list the words of all commands, to see what a dialect may respell")
    given = parser.parse_args()
    if given.command == "record":
        record(given.checkout, given.work, given.output)
    elif given.command == "compare":
        sys.exit(1 if compare(given.before, given.after, given.renames, given.expected, given.most) else 0)
    else:
        lines = (shlex.split(line) for line in COMMANDS.values())
        print("\n".join(sorted({f"{line[0]} {word.partition('=')[0]}" for line in lines for word in line[1:]})))


if __name__ == "__main__":
    main()

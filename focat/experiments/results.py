"""What a plan has found out so far: one file for each step, and all of them together as results.json.

What is the same whenever a step is done is kept apart from what is not (dates, seconds, hardware), so that a plan that
was interrupted ends with the same results.json, byte for byte, as one that was not.
"""

from __future__ import annotations

import base64
import json
import platform
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from focat._version import __version__
from focat.errors import FocatError
from focat.evaluation.significance import Floats
from focat.files import disk_errors, sha256, write_json
from focat.hardware import hardware

KIND = "focat result"  # how a file of ours is known
Kind = Literal["train", "contrast", "evaluate", "analyse"]
Record = dict[str, Any]
BULK = ("answers", "lines")  # parts of a result that results.json leaves to the step's own file


@dataclass(frozen=True)
class Step:
    """One thing to do for one system and seed."""

    system: str
    seed: int
    kind: Kind
    subject: str = ""  # the suite, or the test set
    context: str = ""  # of a test set: where target context comes from
    window: int | None = None  # another size than that of training

    @property
    def name(self) -> str:
        """What it is about: contrast.deixis, evaluate.test.reuse.window3."""
        size = "" if self.window is None else f"window{self.window}"
        return ".".join(filter(None, (self.kind, self.subject, self.context, size)))

    @property
    def file(self) -> str:
        """The name of its result."""
        return f"{self.system}.{self.seed}.{self.name}.json"

    def __str__(self) -> str:
        return f"{self.system} (seed {self.seed}): {self.name.replace('.', ' ')}"


class Results:
    """The folder of result files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, step: Step) -> Path:
        """The file of a step."""
        return self.folder / step.file

    def of(self, step: Step, inputs: str | None = None) -> Record | None:
        """The result of a step, if it is there and was made from these inputs."""
        path = self.path(step)
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise FocatError(f"{path}: is damaged ({error}); delete it, and the step is done again") from None
        if not isinstance(record, dict) or record.get("kind") != KIND:
            raise FocatError(f"{path}: is no result of a plan; move it elsewhere")
        return record if inputs is None or record["inputs"] == inputs else None

    def keep(self, step: Step, inputs: str, result: Record, provenance: Record) -> Record:
        """Write the result of a step, whole."""
        record = {
            "kind": KIND,
            "system": step.system,
            "seed": step.seed,
            "step": step.name,
            "inputs": inputs,
            "result": result,
            "provenance": provenance,
        }
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.path(step), record)
        return record


def gathered(title: str, records: Iterable[Record]) -> tuple[Record, Record]:
    """results.json and provenance.json: what was found, and how, when and where."""
    found, how = [], {}
    for record in records:
        result = {name: value for name, value in record["result"].items() if name not in BULK}
        found.append({name: record[name] for name in ("system", "seed", "step", "inputs")} | {"result": result})
        how[f"{record['system']}.{record['seed']}.{record['step']}"] = record["provenance"]
    return {"kind": "focat results", "plan": title, "results": found}, {"kind": "focat provenance", "steps": how}


class Stopwatch:
    """Takes down when, where and in how many seconds something was done."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def provenance(self, command: str, **more: Any) -> Record:
        """What is not the same the next time."""
        import torch

        return {
            "command": command,
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - self._start, 3),
            "hardware": hardware(),
            "focat": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            **more,
        }


def packed_numbers(numbers: Floats) -> Record:
    """A table of numbers as a few words of JSON; whole numbers, as counts are, take little room."""
    whole = (numbers == np.rint(numbers)).all() and np.abs(numbers).max(initial=0) < 2**31
    kind = "<i4" if whole else "<f8"
    text = base64.b85encode(zlib.compress(numbers.astype(kind).tobytes(), 9)).decode()
    return {"shape": list(numbers.shape), "type": kind, "packed": text}


def unpacked_numbers(record: Record) -> Floats:
    """What `packed_numbers` packed."""
    data = zlib.decompress(base64.b85decode(record["packed"]))
    numbers: Floats = np.frombuffer(data, record["type"]).reshape(record["shape"]).astype(np.float64)
    return numbers


def fingerprint(value: Any) -> Any:
    """A value that JSON can write, with the digest of each file in place of its path: moving files changes nothing.

    Of settings only those that are not at their default, so that a setting that is new to focat changes nothing either.
    """
    if isinstance(value, BaseModel):
        return fingerprint(value.model_dump(exclude_defaults=True))
    if isinstance(value, dict):
        return {str(key): fingerprint(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [fingerprint(inner) for inner in value]
    if isinstance(value, Path):
        try:
            return sha256(value)
        except OSError as error:
            raise FocatError(f"{value}: cannot be read: {error.strerror}") from None
    return value

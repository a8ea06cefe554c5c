"""The reader of `model.bin`, CTranslate2's file of variables, which needs no CTranslate2.

Numbers are little-endian. The file is: version (uint32); name of the specification; its revision (uint32); number of
variables (uint32); for each its name, rank (uint8), dimensions (uint32), type (uint8), bytes (uint32) and values; then
the number of aliases (uint32), for each its name and that of the variable it stands for. A text is its length with the
zero that ends it (uint16), then its bytes.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from focat.errors import FocatError

_TYPES = torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16
_VERSIONS = 4, 5, 6  # 6 is the latest; from 4 on, variables have a type
_LARGEST = 1 << 20  # variables of a file: what lies beyond is no model


@dataclass(frozen=True)
class VariableFile:
    """The content of a model.bin."""

    specification: str
    revision: int
    variables: dict[str, Tensor]
    aliases: dict[str, str]  # other names of variables


def read_variables(path: Path) -> VariableFile:
    """Read a model.bin.

    Raises:
        FocatError: it cannot be read, is truncated, or is no such file.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Reader(path, content).read()
    except OSError as error:
        raise FocatError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, struct.error, UnicodeDecodeError):
        raise FocatError(f"{path}: is truncated, or no model of CTranslate2; get it again") from None


class _Reader:
    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self.path, self.content, self.position = path, content, 0

    def read(self) -> VariableFile:
        version = self._number("<I")
        if version not in _VERSIONS:
            raise FocatError(
                f"{self.path}: is of version {version}, and focat reads {_VERSIONS[0]} to {_VERSIONS[-1]} of "
                "CTranslate2's format; convert the model again with a current CTranslate2"
            )
        specification, revision = self._text(), self._number("<I")
        variables: dict[str, Tensor] = {}
        for _ in range(self._count()):
            name = self._text()
            shape = [self._number("<I") for _ in range(self._number("<B"))]
            kind = _TYPES[self._type()]
            size = self._number("<I")
            if size != prod(shape) * kind.itemsize:
                raise ValueError(name)
            data = bytearray(self._take(size))
            variables[name] = torch.frombuffer(data, dtype=kind).view(shape) if size else torch.empty(shape, dtype=kind)
        aliases = {self._text(): self._text() for _ in range(self._count())}
        if not variables.keys() >= set(aliases.values()):
            raise ValueError("aliases")
        return VariableFile(specification, revision, variables, aliases)

    def _take(self, size: int) -> bytes:
        taken = self.content[self.position : self.position + size]
        if len(taken) < size:
            raise ValueError("truncated")
        self.position += size
        return taken

    def _number(self, form: str) -> int:
        (number,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(number)

    def _count(self) -> int:
        count = self._number("<I")
        if count > _LARGEST:
            raise ValueError(f"{count} variables")
        return count

    def _type(self) -> int:
        kind = self._number("<B")
        if kind >= len(_TYPES):
            raise ValueError(f"type {kind}")
        return kind

    def _text(self) -> str:
        return self._take(self._number("<H")).rstrip(b"\0").decode("utf-8")

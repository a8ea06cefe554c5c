"""A model of another toolkit: what readers of its files return, and `import_model` makes a run of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focat.corpus.tokenizer import read_sentencepiece
from focat.errors import FocatError


@dataclass(frozen=True)
class ForeignTokens:
    """The vocabulary of one side, with the ids of the other toolkit."""

    path: Path
    """The file that lists the pieces."""
    pieces: list[str]
    """By id."""
    sentencepiece: bytes
    end: int
    unknown: int
    padding: int | None = None
    start: int | None = None
    """What the decoder reads first, if it is a token of its own."""


@dataclass(frozen=True)
class ForeignModel:
    """All that a run needs. Layers have focat's names; rows of embeddings have the ids of the other toolkit."""

    path: Path
    """The file of the weights."""
    settings: dict[str, Any]
    """Of `ModelSettings`, but for embeddings and output bias."""
    layers: dict[str, Tensor]
    """All weights but those below."""
    source: ForeignTokens
    target: ForeignTokens
    source_embedding: Tensor
    target_embedding: Tensor
    output: Tensor
    output_bias: Tensor | None
    max_tokens: int
    """Longest sequence that the model was made for."""
    decoding: dict[str, Any] = field(default_factory=dict)
    languages: tuple[str | None, str | None] = (None, None)
    notes: tuple[str, ...] = ()
    """What a user should know about the conversion."""


class Weights:
    """The tensors of a model file, which notes those that are read: what is left over, focat cannot represent."""

    def __init__(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        self.path = path
        self._tensors = tensors
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __getitem__(self, name: str) -> Tensor:
        """A tensor in float32.

        Raises:
            FocatError: the file does not have it, or it holds values that are no numbers.
        """
        if name not in self._tensors:
            raise FocatError(f"{self.path}: has no {name}: it is incomplete, or of another architecture")
        self._read.add(name)
        tensor = self._tensors[name].float()
        if not bool(tensor.isfinite().all()):
            raise FocatError(f"{self.path}: {name} holds values that are not finite; get the model again")
        return tensor

    def get(self, name: str) -> Tensor | None:
        """The same, or None if the file does not have it."""
        return self[name] if name in self._tensors else None

    def matrix(self, name: str) -> Tensor:
        """The same of a matrix.

        Raises:
            FocatError: as above, or it is none.
        """
        tensor = self[name]
        if tensor.dim() != 2:
            raise FocatError(f"{self.path}: {name} has {tensor.dim()} dimensions, and should be a matrix")
        return tensor

    def stacked(self, names: Iterable[str]) -> Tensor:
        """Tensors one below the other, as focat stores queries, keys and values."""
        return self.stack({name: self[name] for name in names})

    def stack(self, parts: Mapping[str, Tensor]) -> Tensor:
        """The same of tensors that were changed after they were read."""
        shapes = [tuple(part.shape) for part in parts.values()]
        if not all(shapes) or len({shape[1:] for shape in shapes}) > 1:
            written = ", ".join("×".join(map(str, shape)) or "a number" for shape in shapes)
            raise FocatError(f"{self.path}: the shapes of {' and '.join(parts)} do not fit ({written})")
        return torch.cat(list(parts.values()))

    def check_all_read(self, *ignored: str) -> None:
        """Refuse a model with weights that nothing has read, except for names that end with one of `ignored`."""
        left = sorted(name for name in self._tensors if name not in self._read and not name.endswith(ignored))
        if left:
            raise FocatError(
                f"{self.path}: has {left[0]}{f' and {len(left) - 1} more weights' if len(left) > 1 else ''} "
                "that focat's Transformer has no place for"
            )


def sinusoid_table(rows: int, width: int, last: int, offset: int) -> NDArray[np.float64]:
    """Sines, then cosines, of (row + offset) / 10000^(i / last), for i below width / 2."""
    angles = (np.arange(rows) + offset)[:, None] / 10000 ** (np.arange(width // 2) / last)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


def table_settings(table: Tensor) -> dict[str, Any] | None:
    """The settings whose sinusoids are this table of positions, (rows, width); None if there are none."""
    rows, width = table.shape
    half = width // 2
    for offset in (0, 1, 2):  # Marian's; CTranslate2's own; fairseq's with padding 1
        for sinusoids, last in (("marian", half), ("fairseq", max(half - 1, 1))):
            # what is computed in float32 has an error that grows with the angle, and float16 has three digits
            exact = sinusoid_table(rows, width, last, offset)
            if np.abs(table.numpy() - exact).max() < 2e-3:
                return {"sinusoids": sinusoids, "position_offset": offset}
    return None


def read_text_splitters(folder: Path) -> tuple[bytes, bytes]:
    """The SentencePiece models of source and target in a folder.

    Raises:
        FocatError: there are none.
    """
    for names in (("source.spm", "target.spm"), ("sentencepiece.model", "sentencepiece.model")):
        if all((folder / name).exists() for name in names):
            source, target = (read_sentencepiece(folder / name) for name in names)
            return source, target
    raise FocatError(f"{folder}: has no source.spm and target.spm; put the SentencePiece models of the model there")

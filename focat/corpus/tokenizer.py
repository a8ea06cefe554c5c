"""Text to token ids and back: SentencePiece behind four ids of our own that no text can produce.

Normalisation (lower-casing, Unicode form) is part of the tokenizer, so that inference repeats what training did.
Whatever the text, `decode(encode(text))` is the normalised text, byte for byte, if the model has byte fallback.

Models of other toolkits have SentencePiece too, but a list of pieces of their own with other ids: `ForeignVocabulary`.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from focat.config.data import NormalisationSettings, TokenizerSettings
from focat.corpus.vocabulary import SPECIALS
from focat.corpus.word_boundaries import WordBoundaries, word_boundaries
from focat.errors import FocatError
from focat.files import read_json_object, sha256, write_atomic, write_json
from focat.hardware import cores

# SentencePiece writes a space as ▁ and would read a ▁ of the text back as a space. A character that Unicode reserves
# for internal use stands in for it; escaped itself, it can be in the text too.
_SPACE_MARK, _ESCAPE = "\u2581", "\U0010fffe"
_BYTE = re.compile("<0x[0-9A-F]{2}>")  # a piece of byte fallback

# The same on every machine, whatever its cores: a model notes the number, and unigram adds up floats thread by thread.
_TRAINING_THREADS = 16


class Vocabulary:
    """The tokens of one side: SentencePiece's pieces behind the special ids."""

    def __init__(self, model: bytes, normalisation: NormalisationSettings) -> None:
        self.model = model
        self.normalisation = normalisation
        self._pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.size: int = self._pieces.get_piece_size() + SPECIALS

    def __eq__(self, other: object) -> bool:
        """Whether every text has the same tokens in both."""
        if not isinstance(other, Vocabulary):
            return NotImplemented
        mine, theirs = ((v.model, v.normalisation, getattr(v, "listed", None)) for v in (self, other))
        return mine == theirs

    def normalise(self, text: str) -> str:
        """The form of the text that the model sees, and that `decode` gives back."""
        return _normalise(text, self.normalisation)

    def encode(self, text: str) -> list[int]:
        """The tokens of one sentence; never a special id."""
        return [piece + SPECIALS for piece in self._pieces.encode(_escape(self.normalise(text)))]

    @cached_property
    def word_boundaries(self) -> WordBoundaries:
        """Where words begin and end between tokens."""
        return word_boundaries([self.piece(token) for token in range(SPECIALS, self.size)])

    def encode_phrase(self, text: str) -> list[int]:
        """The tokens of a part of a sentence, as they are at its beginning and after a space."""
        return self.encode(text)

    def encode_all(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The tokens of many sentences in a row, and how many each has; uses all cores."""
        prepared = [_escape(self.normalise(text)) for text in texts]
        encoded = self._pieces.encode(prepared, num_threads=cores())
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        tokens = np.fromiter(chain.from_iterable(encoded), np.int64, int(lengths.sum()))
        return tokens + SPECIALS, lengths

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of a sentence; special ids are passed over."""
        return _unescape(self._pieces.decode([int(t) - SPECIALS for t in tokens if t >= SPECIALS]))

    def piece(self, token: int) -> str:
        """A token as a reader would like to see it."""
        return ("<P>", "<B>", "<E>", "<S>")[token] if token < SPECIALS else self._pieces.id_to_piece(token - SPECIALS)

    def text_bytes(self, token: int) -> int:
        """How many bytes of text a token stands for, in UTF-8; spaces do not count."""
        if token < SPECIALS:
            return 0
        piece = self.piece(token)
        return 1 if _BYTE.fullmatch(piece) else len(piece.replace(_SPACE_MARK, "").encode())


@dataclass(frozen=True)
class PieceList:
    """The pieces of a model of another toolkit in the order of its ids, without those that are special ids here."""

    pieces: tuple[str, ...]
    unknown: int
    """Index of the piece that stands for all that are not listed."""
    prefix: str | None = None
    """A piece in front of every sentence, as `>>deu<<`, which tells a multilingual model the target language."""


class ForeignVocabulary(Vocabulary):
    """A vocabulary of another toolkit: SentencePiece splits the text, and a list of pieces gives the ids.

    Text is split as that toolkit does it: a ▁ in it becomes a space, and so on.
    """

    def __init__(self, model: bytes, normalisation: NormalisationSettings, listed: PieceList) -> None:
        super().__init__(model, normalisation)
        self.listed = listed
        self.size = len(listed.pieces) + SPECIALS
        self._ids = {piece: id for id, piece in enumerate(listed.pieces, SPECIALS)}
        self._unknown = listed.unknown + SPECIALS
        self._prefix = [] if listed.prefix is None else [self._ids[listed.prefix]]

    def encode(self, text: str) -> list[int]:
        """The tokens of one sentence, the prefix first; never a special id."""
        return self._to_ids(self._pieces.encode(self.normalise(text), out_type=str))

    def encode_phrase(self, text: str) -> list[int]:
        """The tokens of a part of a sentence, without the prefix."""
        return self.encode(text)[len(self._prefix) :]

    def encode_all(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The tokens of many sentences in a row, and how many each has."""
        split = self._pieces.encode([self.normalise(text) for text in texts], out_type=str, num_threads=cores())
        encoded = [self._to_ids(pieces) for pieces in split]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.fromiter(chain.from_iterable(encoded), np.int64, int(lengths.sum())), lengths

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of a sentence; special ids and the prefix are passed over."""
        words = [self.piece(int(t)) for t in tokens if t >= SPECIALS and t not in self._prefix]
        text: str = self._pieces.decode_pieces(words)
        return text.replace(_SPACE_MARK, " ").strip()  # SentencePiece leaves it in pieces that it does not know

    def piece(self, token: int) -> str:
        """A token as a reader would like to see it."""
        return super().piece(token) if token < SPECIALS else self.listed.pieces[token - SPECIALS]

    def text_bytes(self, token: int) -> int:
        """How many bytes of text a token stands for; none, if it is the prefix."""
        return 0 if token in self._prefix else super().text_bytes(token)

    def _to_ids(self, pieces: list[str]) -> list[int]:
        return [*self._prefix, *(self._ids.get(piece, self._unknown) for piece in pieces)] if pieces else []


class Tokenizer:
    """The vocabularies of the two sides; one and the same when they are joint."""

    def __init__(self, source: Vocabulary, target: Vocabulary) -> None:
        self.source, self.target = source, target

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source is self.target

    def save(self, folder: Path) -> None:
        """Write the models and the normalisation, all that inference needs."""
        folder.mkdir(parents=True, exist_ok=True)
        described: dict[str, Any] = {"joint": self.joint, "normalisation": self.source.normalisation.model_dump()}
        sides = {"source": self.source} if self.joint else {"source": self.source, "target": self.target}
        written = []
        for side, vocabulary in sides.items():
            written.append(f"{side}.model")
            write_atomic(folder / written[-1], vocabulary.model)
            if isinstance(vocabulary, ForeignVocabulary):
                written.append(f"{side}.pieces.json")
                write_json(folder / written[-1], asdict(vocabulary.listed))
                described["pieces"] = True
        described["sha256"] = {name: sha256(folder / name) for name in written}
        write_json(folder / "tokenizer.json", described)

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """What `save` wrote."""
        path, remedy = folder / "tokenizer.json", "restore it from a copy of the folder"
        described = read_json_object(path, remedy)
        try:
            normalisation = NormalisationSettings.model_validate(described["normalisation"])
            sums = dict(described.get("sha256", {}))  # focat 0.2.0 wrote none
        except (KeyError, TypeError, ValueError):
            raise FocatError(f"{path}: does not describe a tokenizer; {remedy}") from None
        sides: list[Vocabulary] = []
        for side in ("source",) if described.get("joint") else ("source", "target"):
            files = [folder / f"{side}.model"]
            model = read_sentencepiece(files[0])
            if described.get("pieces"):
                files.append(folder / f"{side}.pieces.json")
                sides.append(ForeignVocabulary(model, normalisation, _read_pieces(files[1])))
            else:
                sides.append(Vocabulary(model, normalisation))
            for file in files:
                if file.name in sums and sha256(file) != sums[file.name]:
                    raise FocatError(f"{file}: is damaged (it does not match its checksum); {remedy}")
        return cls(sides[0], sides[-1])


def train_tokenizer(
    settings: TokenizerSettings, normalisation: NormalisationSettings, source: Iterable[str], target: Iterable[str]
) -> Tokenizer:
    """A tokenizer trained on these sentences, or the models that the settings bring along."""
    if settings.from_run is not None:
        tokenizer = Tokenizer.load(settings.from_run / "tokenizer")
        if tokenizer.source.normalisation != normalisation:
            theirs = ", ".join(f"{name}: {value}" for name, value in tokenizer.source.normalisation)
            raise FocatError(f"data.normalisation: is not that of {settings.from_run}; set {theirs}")
        return tokenizer
    if settings.source_model is not None:
        first = Vocabulary(read_sentencepiece(settings.source_model), normalisation)
        if settings.target_model is None:
            return Tokenizer(first, first)
        return Tokenizer(first, Vocabulary(read_sentencepiece(settings.target_model), normalisation))
    if settings.joint:
        both = Vocabulary(_train(settings, normalisation, chain(source, target)), normalisation)
        return Tokenizer(both, both)
    return Tokenizer(
        Vocabulary(_train(settings, normalisation, source), normalisation),
        Vocabulary(_train(settings, normalisation, target), normalisation),
    )


def _train(settings: TokenizerSettings, normalisation: NormalisationSettings, sentences: Iterable[str]) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(_escape(_normalise(sentence, normalisation)) for sentence in sentences),
            model_writer=model,
            model_type=settings.kind,
            vocab_size=settings.vocabulary - SPECIALS,
            hard_vocab_limit=False,
            character_coverage=settings.character_coverage,
            byte_fallback=settings.byte_fallback,
            # What the text is stays what it is: normalisation is ours, and recorded.
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
            # The special ids are ours: SentencePiece keeps only the one it cannot do without.
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            max_sentence_length=1 << 20,
            num_threads=_TRAINING_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise FocatError(f"data.tokenizer.vocabulary = {settings.vocabulary}: {_why_not(settings, error)}") from None
    return model.getvalue()


def _why_not(settings: TokenizerSettings, error: RuntimeError) -> str:
    """What SentencePiece says of a vocabulary it cannot make, in the words of our settings."""
    if sizes := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
        bytes_too = " and the 256 bytes of byte_fallback" if settings.byte_fallback else ""
        return (
            f"too small: the characters of the corpus{bytes_too} need {int(sizes[1]) + SPECIALS};"
            " raise it, or lower data.tokenizer.character_coverage"
        )
    reason = str(error).rpartition("] ")[2].strip() or str(error)
    return f"SentencePiece cannot make this vocabulary: {reason}"


def _normalise(text: str, how: NormalisationSettings) -> str:
    if how.unicode == "none":
        return text.lower() if how.lowercase else text
    text = unicodedata.normalize(how.unicode, text)
    # Twice, because small letters may compose where the capitals could not: J and a caron, j and a caron.
    return unicodedata.normalize(how.unicode, text.lower()) if how.lowercase else text


def _escape(text: str) -> str:
    if _SPACE_MARK not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPE + "0").replace(_SPACE_MARK, _ESCAPE + "1")


def _unescape(text: str) -> str:
    return text.replace(_ESCAPE + "1", _SPACE_MARK).replace(_ESCAPE + "0", _ESCAPE) if _ESCAPE in text else text


def read_sentencepiece(path: Path) -> bytes:
    """Read a SentencePiece model.

    Raises:
        FocatError: it cannot be read, or is none.
    """
    try:
        model = path.read_bytes()
        if model:  # SentencePiece takes no bytes for no question
            sentencepiece.SentencePieceProcessor(model_proto=model)
            return model
    except OSError as error:
        raise FocatError(f"{path}: cannot be read: {error.strerror}") from None
    except (RuntimeError, UnicodeDecodeError):  # the latter if the message would have bytes of the file in it
        pass
    raise FocatError(f"{path}: is not a SentencePiece model")


def _read_pieces(path: Path) -> PieceList:
    content = read_json_object(path, "restore it from a copy of the run")
    try:
        listed = PieceList(tuple(map(str, content["pieces"])), int(content["unknown"]), content["prefix"])
        if listed.unknown < len(listed.pieces) and (listed.prefix is None or listed.prefix in listed.pieces):
            return listed
    except (KeyError, TypeError, ValueError):
        pass
    raise FocatError(f"{path}: does not hold the pieces of a vocabulary; restore it from a copy of the run")

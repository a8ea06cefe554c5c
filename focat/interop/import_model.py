"""`focat import`: a run from a model of another toolkit.

Ids of the other toolkit are put in another order: its padding, start symbol and end become special ids, and the pieces
of text follow. What it has no token for is never predicted, by a bias on its logit, so that probabilities stay those
of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor

from focat.config import Settings
from focat.config.data import NormalisationSettings
from focat.config.loading import validate_tree
from focat.corpus.tokenizer import ForeignVocabulary, PieceList, Tokenizer, read_sentencepiece
from focat.corpus.vocabulary import SPECIALS
from focat.errors import FocatError, ParameterError
from focat.files import atomic_folder, check_new_folder, disk_errors, read_json_object
from focat.interop.foreign_model import ForeignModel, ForeignTokens
from focat.interop.import_ctranslate2 import read_argos, read_ctranslate2
from focat.interop.import_hf import read_hf
from focat.interop.import_marian import read_marian
from focat.interop.tokens import WINDOWS_KEY
from focat.model.transformer import UNUSED_BIAS, Transformer
from focat.run import Run
from focat.training.checkpoints import TrainingState, save_checkpoint

_SEPARATOR = "<S>"  # its name in models that `focat export` has written


@dataclass(frozen=True)
class ImportedRun:
    """A run that was made from a model of another toolkit."""

    run: Run
    notes: tuple[str, ...]
    """What a user should know about the conversion."""


def import_model(
    model: Path,
    output: Path,
    source_language: str | None = None,
    target_language: str | None = None,
    target_sentencepiece: Path | None = None,
) -> ImportedRun:
    """Make a run from a model of another toolkit.

    Args:
        model: a folder of Hugging Face (Marian, M2M100) or CTranslate2, an `.argosmodel`, or a Marian `.npz`.
        output: folder of the run; it must not exist, or be empty.
        source_language: as in `data.source_language`; needed where the model does not say it.
        target_language: the same. For a multilingual model, that of its token: `deu` for `>>deu<<`.
        target_sentencepiece: the SentencePiece model of the target, for packages that have that of the source alone.

    Raises:
        FocatError: the model is incomplete or damaged, or focat's Transformer cannot compute what it computes. Nothing
            is written.
    """
    check_new_folder(output)
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise FocatError(f"{output}: exists; give another folder for the run")
    foreign = _read(model)
    if target_sentencepiece is not None:
        splitter = read_sentencepiece(target_sentencepiece)
        foreign = replace(foreign, target=replace(foreign.target, sentencepiece=splitter))
    if foreign.source.pieces == foreign.target.pieces:
        foreign = replace(foreign, source=replace(foreign.source, start=foreign.target.start))
    prefix = _language_token(foreign, target_language)
    languages = _languages(foreign, source_language, target_language)
    source, target = _Order.of(foreign.source), _Order.of(foreign.target)
    weights, embeddings = _weights(foreign, source, target)
    joint = foreign.source.pieces == foreign.target.pieces
    settings = _settings(foreign, output, languages, joint, embeddings, bias="output_bias" in weights)
    tokenizer = _tokenizer(foreign, source, target, prefix)
    _check_shapes(foreign, settings, tokenizer, weights)
    with disk_errors(output):
        output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(output) as unfinished:
        run = Run.create_imported(unfinished, settings, tokenizer)
        # a checkpoint like any other: averaging needs one that was validated
        state = TrainingState(validations=[(0, 0.0)], finished=True)
        save_checkpoint(run, state, weights, {}, keep=1)
    return ImportedRun(Run.open(output), (*foreign.notes, *_unknown_pieces(foreign)))


def _read(model: Path) -> ForeignModel:
    """Find out what the path holds, and read it."""
    if model.is_file():
        if model.suffix == ".npz":
            return read_marian(model)
        if model.suffix in (".argosmodel", ".zip"):
            return read_argos(model)
    elif (model / "model.bin").exists():
        return read_ctranslate2(model)
    elif (model / "config.json").exists():
        return read_hf(model)
    elif found := sorted(model.glob("*.npz")):
        if len(found) == 1:
            return read_marian(found[0])
        raise FocatError(f"{model}: has {len(found)} files .npz; name one of them")
    elif not model.exists():
        raise FocatError(f"{model}: there is no such file or folder; focat downloads nothing, so get the model first")
    raise FocatError(
        f"{model}: holds no model that focat imports: a Hugging Face folder (config.json), a folder of CTranslate2 "
        "(model.bin), an .argosmodel, or Marian's .npz"
    )


def _unknown_pieces(foreign: ForeignModel) -> tuple[str, ...]:
    """A note if the SentencePiece model of the target does not know the pieces that the model decodes."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=foreign.target.sentencepiece)
    splits = {processor.id_to_piece(id) for id in range(processor.get_piece_size())}
    known = sum(piece in splits for piece in foreign.target.pieces)
    if foreign.source.sentencepiece != foreign.target.sentencepiece or known > 0.9 * len(foreign.target.pieces):
        return ()
    return (
        f"{foreign.path}: has a SentencePiece model of the source alone; translations are as they should be, but to "
        "score or train, import it again with target_sentencepiece, the target.spm of the model it was made from",
    )


@dataclass(frozen=True)
class _Order:
    """The other toolkit's id of each of our ids; None where it has no such token."""

    padding: int | None
    start: int | None
    end: int
    separator: int | None
    words: tuple[int, ...]

    @classmethod
    def of(cls, tokens: ForeignTokens) -> _Order:
        splitter = sentencepiece.SentencePieceProcessor(model_proto=tokens.sentencepiece)
        written = _SEPARATOR in tokens.pieces and splitter.piece_to_id(_SEPARATOR) == splitter.unk_id()
        separator = tokens.pieces.index(_SEPARATOR) if written else None
        special = {tokens.padding, tokens.start, tokens.end, separator}
        words = tuple(id for id in range(len(tokens.pieces)) if id not in special)
        return cls(tokens.padding, tokens.start, tokens.end, separator, words)

    def rows(self, table: Tensor) -> Tensor:
        """The rows of a table, (their ids, width), in our order. A separator starts as what ends a sentence does."""
        zero = torch.zeros_like(table[0])
        padding, start = (zero if id is None else table[id] for id in (self.padding, self.start))
        separator = table[self.end if self.separator is None else self.separator]
        return torch.cat([torch.stack([padding, start, table[self.end], separator]), table[list(self.words)]])

    def bias(self, bias: Tensor | None, size: int) -> Tensor | None:
        """The bias of logits, (our ids,); None if there is none, and none is needed."""
        own_start = self.start is not None and self.start not in (self.padding, self.end)
        known = [self.padding is not None, own_start, True, self.separator is not None]
        if bias is None and all(known):
            return None
        moved = self.rows((torch.zeros(size) if bias is None else bias)[:, None])[:, 0]
        moved[:SPECIALS][~torch.tensor(known)] = UNUSED_BIAS
        return moved


def _language_token(foreign: ForeignModel, target_language: str | None) -> str | None:
    """The piece that tells a multilingual model the target language; None for a model of one language."""
    known = [piece for piece in foreign.source.pieces if piece.startswith(">>") and piece.endswith("<<")]
    token = f">>{target_language}<<"
    if not known or token in known:
        return token if known else None
    names = ", ".join(piece[2:-2] for piece in known[:20]) + (", …" if len(known) > 20 else "")
    if target_language is None:
        raise FocatError(f"{foreign.path}: translates to several languages; give target_language, one of {names}")
    raise ParameterError("target_language", target_language, f"is no language of this model, which has {names}")


def _languages(foreign: ForeignModel, source: str | None, target: str | None) -> tuple[str, str]:
    found = source or foreign.languages[0], target or foreign.languages[1]
    for name, language in zip(("source_language", "target_language"), found, strict=True):
        if not isinstance(language, str):
            raise FocatError(f"{foreign.path}: does not say its languages; give {name}, as en")
    return str(found[0]), str(found[1])


def _weights(foreign: ForeignModel, source: _Order, target: _Order) -> tuple[dict[str, Tensor], str]:
    """The weights under focat's names, their rows in the order of focat's ids, and `model.embeddings`."""
    width = foreign.settings["d_model"]
    for name, table, tokens in (
        ("source embedding", foreign.source_embedding, foreign.source),
        ("target embedding", foreign.target_embedding, foreign.target),
        ("output projection", foreign.output, foreign.target),
    ):
        if table.shape != (len(tokens.pieces), width):
            raise FocatError(
                f"{foreign.path}: its {name} is {'×'.join(map(str, table.shape))}, but {tokens.path.name} lists "
                f"{len(tokens.pieces)} pieces and the width is {width}: they do not belong together"
            )
    if foreign.output_bias is not None and foreign.output_bias.shape != foreign.output.shape[:1]:
        raise FocatError(
            f"{foreign.path}: its output bias has {foreign.output_bias.numel()} entries, not "
            f"{len(foreign.output)}, one for each piece"
        )
    tied = torch.equal(foreign.output, foreign.target_embedding)
    shared = (
        tied
        and foreign.source.pieces == foreign.target.pieces
        and torch.equal(foreign.source_embedding, foreign.target_embedding)
    )
    weights = dict(foreign.layers)
    weights["target_embedding.weight"] = target.rows(foreign.target_embedding)
    if not shared:
        weights["source_embedding.weight"] = source.rows(foreign.source_embedding)
    if not tied:
        weights["output.weight"] = target.rows(foreign.output)
    bias = target.bias(foreign.output_bias, len(foreign.output))
    if bias is not None:
        weights["output_bias"] = bias
    return {
        name: tensor.contiguous() for name, tensor in weights.items()
    }, "shared" if shared else "tied" if tied else "separate"


def _settings(
    foreign: ForeignModel, output: Path, languages: tuple[str, str], joint: bool, embeddings: str, bias: bool
) -> Settings:
    tree: dict[str, Any] = {
        "data": {
            "source_language": languages[0],
            "target_language": languages[1],
            "tokenizer": {"joint": joint},
        },
        "windows": _windows(foreign),
        "model": foreign.settings | {"embeddings": embeddings, "output_bias": bias},
        "training": {"output_dir": output},
        "decoding": foreign.decoding,
    }
    return validate_tree(Settings, tree, str(foreign.path))


def _windows(foreign: ForeignModel) -> Any:
    """Those of the run that `focat export` wrote the model from, else single sentences."""
    config = foreign.path.parent / "config.json"
    noted = read_json_object(config, "get the model again").get(WINDOWS_KEY) if config.exists() else None
    return noted or {"before": 0, "max_tokens": foreign.max_tokens}


def _tokenizer(foreign: ForeignModel, source: _Order, target: _Order, prefix: str | None) -> Tokenizer:
    sides = []
    for tokens, order, before in ((foreign.source, source, prefix), (foreign.target, target, None)):
        if tokens.unknown not in order.words:
            raise FocatError(f"{tokens.path}: its piece for what is not listed is also another special piece")
        pieces = tuple(tokens.pieces[id] for id in order.words)
        listed = PieceList(pieces, order.words.index(tokens.unknown), before)
        sides.append(ForeignVocabulary(tokens.sentencepiece, NormalisationSettings(), listed))
    return Tokenizer(sides[0], sides[0] if sides[0] == sides[1] else sides[1])


def _check_shapes(foreign: ForeignModel, settings: Settings, tokenizer: Tokenizer, weights: dict[str, Tensor]) -> None:
    """Refuse weights of other names or shapes than those of a model with these settings."""
    with torch.device("meta"):
        model = Transformer(settings.model, settings.windows, tokenizer.source.size, tokenizer.target.size, 0)
    expected = {name: parameter.shape for name, parameter in model.named_parameters()}
    for name in sorted(expected.keys() | weights.keys()):
        shapes = expected.get(name), weights[name].shape if name in weights else None
        if shapes[0] != shapes[1]:
            should, found = ("nothing" if shape is None else "×".join(map(str, shape)) for shape in shapes)
            raise FocatError(
                f"{foreign.path}: what becomes {name} is {found}, but its settings ask for {should}: weights and "
                "settings do not belong together"
            )

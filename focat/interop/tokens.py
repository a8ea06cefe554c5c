"""Names of tokens in exported vocabularies, and what else `focat import` knows exported models by."""

from __future__ import annotations

from focat.config.schema import WindowSettings
from focat.corpus.tokenizer import ForeignVocabulary, Tokenizer, Vocabulary
from focat.corpus.vocabulary import END, PAD, SEPARATOR, SPECIALS, START

PAD_NAME, START_NAME, END_NAME, SEPARATOR_NAME = "<pad>", "<B>", "</s>", "<S>"
WINDOWS_KEY = "focat_windows"  # in config.json of exported models: `WindowSettings`, which no other toolkit has
_SPECIAL_NAMES = {PAD: PAD_NAME, START: START_NAME, END: END_NAME, SEPARATOR: SEPARATOR_NAME}


def token_names(vocabulary: Vocabulary) -> list[str]:
    """The name of each id of a vocabulary, all different.

    A piece with the name of a special token, such as the `</s>` that SentencePiece adds to a model of its own, is never
    used by focat; it gets another name.
    """
    pieces = [vocabulary.piece(token) for token in range(SPECIALS, vocabulary.size)]
    taken = set(_SPECIAL_NAMES.values())
    renamed = [f"<unused-{i}>" if piece in taken else piece for i, piece in enumerate(pieces, SPECIALS)]
    return [*(_SPECIAL_NAMES[token] for token in range(SPECIALS)), *renamed]


def unknown_name(vocabulary: Vocabulary) -> str:
    """The token for what is not in the vocabulary."""
    if isinstance(vocabulary, ForeignVocabulary):
        return vocabulary.listed.pieces[vocabulary.listed.unknown]
    return vocabulary.piece(SPECIALS)  # SentencePiece's first, unless a model was trained with other ids


def one_vocabulary(tokenizer: Tokenizer) -> bool:
    """Whether the ids of source and target mean the same tokens; SentencePiece may still split the two differently."""
    return tokenizer.joint or token_names(tokenizer.source) == token_names(tokenizer.target)


def never_decoded(windows: WindowSettings) -> list[int]:
    """Special ids that no translation has: `<S>` is among them where a target is one sentence."""
    return [PAD, START, *([] if any(windows.target) else [SEPARATOR])]


def source_prefix(tokenizer: Tokenizer) -> str:
    """The token that every source sentence begins with, as `>>deu<<`; empty if there is none."""
    source = tokenizer.source
    return (source.listed.prefix or "") if isinstance(source, ForeignVocabulary) else ""

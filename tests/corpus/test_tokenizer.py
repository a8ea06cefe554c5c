"""Any text survives the tokenizer, no text produces a special id, and what was trained is what is loaded."""

from __future__ import annotations

import io
import random
import re
import unicodedata
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from focat.config.data import NormalisationSettings, TokenizerSettings
from focat.corpus.tokenizer import ForeignVocabulary, PieceList, Tokenizer, Vocabulary, train_tokenizer
from focat.corpus.vocabulary import SPECIALS
from focat.errors import FocatError

ENGLISH = ["The cat sat on the mat.", "It was here.", "A dog ran to the river!", "2 < 3, she said."] * 5
GERMAN = ["Die Katze saß auf der Matte.", "Sie war hier.", "Ein Hund lief zum Haus!", "2 < 3, sagte sie."] * 5

TRAINED = [(kind, joint) for kind in ("bpe", "unigram") for joint in (True, False)]

# What SentencePiece uses for itself (▁ for a space, U+2585 and a tab in training, ⁇ for the unknown, byte pieces), what
# the escaping of ▁ uses, what other toolkits use as separators, and characters that break careless string handling.
LOOKS_SPECIAL = ["<S>", "<E>", "<P>", "<B>", "<s>", "</s>", "<pad>", "<unk>", "<0x41>", "_eos", " ⁇ ", "▁", "▁▁", "▅"]
AWKWARD = [
    "\U0010fffe",
    "\U0010fffe0",
    "\U0010fffe1",
    "\0",
    "\n",
    "\r\n",
    "\t",
    " ",
    "  ",
    "\u00a0",
    "\u2028",
    "\ufeff",
]
SCRIPTS = ["👩‍👩‍👧", "🏳️‍🌈", "שלום", "مرحبا", "Привет", "日本語", "e\u0301", "ﬁ", "İ", "\u202eabc\u202c", "\U000e0041"]

ANY_TEXT = st.lists(
    st.one_of(
        st.sampled_from(LOOKS_SPECIAL + AWKWARD + SCRIPTS + ENGLISH[:4]),
        st.text(st.characters(exclude_categories=["Cs"])),  # half a surrogate pair is no text: no UTF-8 file has one
    )
).map("".join)


@cache
def trained(
    kind: str = "bpe", joint: bool = True, vocabulary: int = 330, byte_fallback: bool = True, lowercase: bool = False,
    unicode: str = "none",
) -> Tokenizer:  # fmt: skip
    settings = TokenizerSettings(kind=kind, joint=joint, vocabulary=vocabulary, byte_fallback=byte_fallback)
    return train_tokenizer(settings, NormalisationSettings(lowercase=lowercase, unicode=unicode), ENGLISH, GERMAN)


def sides(tokenizer: Tokenizer) -> list[Vocabulary]:
    return [tokenizer.source, tokenizer.target]


# ------------------------------------------------------------------------------------------------ text and back


@pytest.mark.parametrize(("kind", "joint"), TRAINED)
@given(text=ANY_TEXT)
@settings(max_examples=150, deadline=None)
def test_any_text_survives_and_never_holds_a_special_id(kind: str, joint: bool, text: str) -> None:
    for vocabulary in sides(trained(kind, joint)):
        tokens = vocabulary.encode(text)
        assert vocabulary.decode(tokens) == text
        assert all(SPECIALS <= token < vocabulary.size for token in tokens)


@pytest.mark.parametrize(("kind", "joint"), TRAINED)
def test_what_looks_special_is_text(kind: str, joint: bool) -> None:
    """Each of these is tried for sure, alone and inside a sentence, not only when hypothesis happens to draw it."""
    for vocabulary in sides(trained(kind, joint)):
        for text, shape in product(LOOKS_SPECIAL + AWKWARD + SCRIPTS, ("{}", "a {} b", "{0}{0}", " {} ")):
            sentence = shape.format(text)
            tokens = vocabulary.encode(sentence)
            assert vocabulary.decode(tokens) == sentence
            assert min(tokens) >= SPECIALS


def test_byte_pieces_spell_bytes_and_not_their_names() -> None:
    """`<0x41>` is the piece of the byte of an A; the text of the same spelling is six other characters."""
    vocabulary = trained().source
    assert "<0x41>" not in [vocabulary.piece(token) for token in vocabulary.encode("<0x41>")]
    assert [vocabulary.piece(token) for token in vocabulary.encode("д")[1:]] == ["<0xD0>", "<0xB4>"]


@given(texts=st.lists(ANY_TEXT))
@settings(max_examples=50, deadline=None)
def test_encoding_all_is_encoding_one_by_one(texts: list[str]) -> None:
    for vocabulary in sides(trained(joint=False)):
        tokens, lengths = vocabulary.encode_all(texts)
        one_by_one = [vocabulary.encode(text) for text in texts]
        assert lengths.tolist() == [len(one) for one in one_by_one]
        assert tokens.tolist() == [token for one in one_by_one for token in one]


def test_decoding_passes_over_special_ids() -> None:
    vocabulary = trained().source
    cat, dog = vocabulary.encode("The cat"), vocabulary.encode(" sat")
    assert vocabulary.decode([1, *cat, 3, *dog, 2, 0, 0]) == vocabulary.decode([*cat, *dog])
    assert [vocabulary.piece(token) for token in range(SPECIALS)] == ["<P>", "<B>", "<E>", "<S>"]


def test_without_byte_fallback_the_unknown_is_lost_but_nothing_breaks() -> None:
    for kind in ("bpe", "unigram"):
        vocabulary = trained(kind, vocabulary=70, byte_fallback=False).source
        tokens = vocabulary.encode("The 猫 sat")
        assert min(tokens) >= SPECIALS
        assert vocabulary.decode(tokens).startswith("The ")
        assert vocabulary.decode(tokens).endswith(" sat")
        assert vocabulary.decode(vocabulary.encode("The cat")) == "The cat"
        assert vocabulary.decode([SPECIALS]) == " ⁇ "  # the first id after the special ones is text already
        assert vocabulary.decode(tokens) == "The  ⁇  sat"


# ------------------------------------------------------------------------------------------------ normalisation


@pytest.mark.parametrize(
    ("lowercase", "unicode", "text", "normalised"),
    [
        (False, "none", "Ｅ\u0301 ﬁ \u0130", "Ｅ\u0301 ﬁ \u0130"),
        (True, "none", "Die ÄPFEL", "die äpfel"),
        (False, "NFC", "e\u0301 ﬁ", "é ﬁ"),
        (False, "NFKC", "e\u0301 ﬁ ２", "é fi 2"),
        (True, "NFKC", "ﬁ ™ ŒUVRE", "fi tm œuvre"),
        # There is no J with a caron in one character, but there is such a j.
        (True, "NFC", "J\u030c", "\u01f0"),
    ],
)
def test_normalisation_is_applied_and_recorded(
    tmp_path: Path, lowercase: bool, unicode: str, text: str, normalised: str
) -> None:
    tokenizer = trained(lowercase=lowercase, unicode=unicode)
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    for vocabulary in (tokenizer.source, loaded.source):
        assert vocabulary.decode(vocabulary.encode(text)) == normalised
    assert loaded.source.encode(text) == tokenizer.source.encode(text) == tokenizer.source.encode(normalised)


@pytest.mark.parametrize("unicode", ["none", "NFC", "NFKC"])
@given(text=ANY_TEXT)
@settings(max_examples=100, deadline=None)
def test_normalised_text_stays_as_it_is(unicode: str, text: str) -> None:
    """Else a translation that is fed back as context would be other tokens than those that were generated."""
    vocabulary = trained(lowercase=True, unicode=unicode).source
    once = vocabulary.decode(vocabulary.encode(text))
    assert vocabulary.decode(vocabulary.encode(once)) == once
    assert unicode == "none" or unicodedata.is_normalized(unicode, once)


def test_training_sees_normalised_text() -> None:
    """A lower-casing tokenizer has no use for pieces with capitals, and none are learnt."""
    vocabulary = trained(lowercase=True).source
    pieces = [vocabulary.piece(token) for token in range(SPECIALS + 1 + 256, vocabulary.size)]
    assert "the" in "".join(pieces)
    assert pieces == [piece.lower() for piece in pieces]


# ------------------------------------------------------------------------------------------------ saving and loading


@pytest.mark.parametrize(("kind", "joint"), TRAINED)
def test_what_is_loaded_is_what_was_saved(tmp_path: Path, kind: str, joint: bool) -> None:
    tokenizer = trained(kind, joint)
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.joint == joint
    assert (tmp_path / "target.model").exists() != joint
    for mine, theirs in zip(sides(tokenizer), sides(loaded), strict=True):
        assert theirs.model == mine.model
        assert theirs.size == mine.size
        assert theirs.encode("Die Katze sat ▁") == mine.encode("Die Katze sat ▁")


def test_separate_vocabularies_are_of_their_own_language() -> None:
    tokenizer = trained(joint=False)
    assert len(tokenizer.source.encode("ß")) > len(tokenizer.target.encode("ß"))


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FocatError, match=r"tokenizer\.json: cannot be read \(No such file or directory\); restore it"):
        Tokenizer.load(tmp_path)
    trained().save(tmp_path)
    (tmp_path / "source.model").unlink()
    with pytest.raises(FocatError, match=r"source\.model: cannot be read: No such file"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "not UTF-8"])
def test_a_damaged_model_is_refused(tmp_path: Path, damage: str) -> None:
    model = trained().source.model
    # Two pieces become the same bytes, which SentencePiece would name in its message.
    not_utf8 = re.sub(rb"\n\x02[a-z]{2}", b"\n\x02\xff\xfe", model)
    contents = {"cut": model[: len(model) // 2], "empty": b"", "other": b"PK\3\4 not a model", "not UTF-8": not_utf8}
    trained().save(tmp_path)
    (tmp_path / "source.model").write_bytes(contents[damage])
    with pytest.raises(FocatError, match=r"source\.model: is not a SentencePiece model"):
        Tokenizer.load(tmp_path)


# ------------------------------------------------------------------------------------------------ sizes


@pytest.mark.parametrize(("kind", "joint"), TRAINED)
def test_a_vocabulary_that_the_corpus_cannot_fill_shrinks(kind: str, joint: bool) -> None:
    for vocabulary in sides(trained(kind, joint, vocabulary=32_000)):
        assert 256 + SPECIALS < vocabulary.size < 600
        assert vocabulary.decode(vocabulary.encode("Die cat 猫")) == "Die cat 猫"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(("byte_fallback", "least"), [(True, 265), (False, 9)])
def test_a_vocabulary_too_small_says_what_it_needs(kind: str, byte_fallback: bool, least: int) -> None:
    """By hand: the characters a, b, c and ▁, SentencePiece's unknown, the 4 special ids, and 256 bytes if asked for."""

    def train(vocabulary: int) -> Tokenizer:
        chosen = TokenizerSettings.model_construct(kind=kind, vocabulary=vocabulary, byte_fallback=byte_fallback)
        return train_tokenizer(chosen, NormalisationSettings(), ["abc cab"] * 9, ["bca"] * 9)

    assert train(least).source.size == least
    with pytest.raises(FocatError, match=rf"^data\.tokenizer\.vocabulary = {least - 1}: too small: .* need {least};"):
        train(least - 1)


def test_a_side_with_nothing_to_train_on_is_refused() -> None:
    with pytest.raises(FocatError, match=r"^data\.tokenizer\.vocabulary = 300: [^\n]+$"):
        train_tokenizer(TokenizerSettings(joint=False, vocabulary=300), NormalisationSettings(), ENGLISH, [""] * 20)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_again_gives_the_same_bytes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with other cores, too: sums of floats in the order of the threads would show here."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(2, 7))) for _ in range(400)]
    sentences = [" ".join(draw.choices(words, k=8)) for _ in range(2000)]
    chosen = TokenizerSettings(kind=kind, vocabulary=500)
    models = []
    for cores in (1, 2, 3):
        monkeypatch.setattr("focat.corpus.tokenizer.cores", lambda cores=cores: cores)
        models.append(train_tokenizer(chosen, NormalisationSettings(), sentences, sentences).source.model)
    assert models[0] == models[1] == models[2]


# ------------------------------------------------------------------------------------------------ models brought along


def brought(folder: Path, sentences: list[str]) -> Path:
    """A model as SentencePiece makes it by default: with <s> and </s>, its own normalisation, no byte fallback."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    path = folder / f"{sentences[0][:3]}.model"
    path.write_bytes(model.getvalue())
    return path


def test_a_joint_model_brought_along(tmp_path: Path) -> None:
    model = brought(tmp_path, ENGLISH + GERMAN)
    tokenizer = train_tokenizer(TokenizerSettings(source_model=model), NormalisationSettings(), [], [])
    assert tokenizer.joint
    assert tokenizer.source.model == model.read_bytes()
    plain = sentencepiece.SentencePieceProcessor(model_file=str(model))
    assert tokenizer.source.size == plain.get_piece_size() + SPECIALS
    assert tokenizer.source.encode("Die Katze") == [piece + SPECIALS for piece in plain.encode("Die Katze")]
    assert tokenizer.target.decode(tokenizer.target.encode("Die Katze")) == "Die Katze"


def test_separate_models_brought_along(tmp_path: Path) -> None:
    chosen = TokenizerSettings(
        joint=False, source_model=brought(tmp_path, ENGLISH), target_model=brought(tmp_path, GERMAN)
    )
    tokenizer = train_tokenizer(chosen, NormalisationSettings(lowercase=True), [], [])
    assert not tokenizer.joint
    assert tokenizer.source.decode(tokenizer.source.encode("The CAT")) == "the cat"  # our normalisation still holds
    assert tokenizer.target.decode(tokenizer.target.encode("die Matte")) == "die matte"
    assert tokenizer.source.model != tokenizer.target.model


@given(text=ANY_TEXT)
@settings(max_examples=50, deadline=None)
def test_no_text_reaches_the_control_symbols_of_a_model_brought_along(
    default_vocabulary: Vocabulary, text: str
) -> None:
    vocabulary = default_vocabulary
    controls = {1 + SPECIALS, 2 + SPECIALS}
    assert [vocabulary.piece(token) for token in sorted(controls)] == ["<s>", "</s>"]
    for sentence in (text, f"<s>{text}</s>", "<s>", "</s>"):
        tokens = vocabulary.encode(sentence)
        assert all(token >= SPECIALS for token in tokens)
        assert not controls & set(tokens)
        vocabulary.decode(tokens)


@pytest.fixture(scope="module")
def default_vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    path = brought(tmp_path_factory.mktemp("brought"), ENGLISH)
    return train_tokenizer(TokenizerSettings(source_model=path), NormalisationSettings(), [], []).source


# ------------------------------------------------------------------------------------------------ other toolkits


def foreign(prefix: str | None = None) -> ForeignVocabulary:
    """The English pieces in reverse order, without every tenth, and one that SentencePiece does not know."""
    model = trained(joint=False, byte_fallback=False, vocabulary=60).source.model
    known = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [known.id_to_piece(i) for i in range(known.get_piece_size()) if i % 10 or i == 0][::-1]
    listed = (*pieces, "ß", ">>deu<<")
    return ForeignVocabulary(model, NormalisationSettings(), PieceList(listed, listed.index("<unk>"), prefix))


def test_pieces_have_the_ids_of_their_list() -> None:
    vocabulary = foreign()
    pieces = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.model)
    unlisted = set()
    for text in [*ENGLISH[:4], "saß", "▁ x", ""]:
        wanted = []
        for piece in pieces.encode(text, out_type=str):
            if piece not in vocabulary.listed.pieces:
                unlisted.add(piece)
            known = piece if piece in vocabulary.listed.pieces else "<unk>"
            wanted.append(vocabulary.listed.pieces.index(known) + SPECIALS)
        assert vocabulary.encode(text) == wanted
    assert unlisted
    assert vocabulary.size == len(vocabulary.listed.pieces) + SPECIALS
    assert vocabulary.listed.pieces.index("ß") + SPECIALS in vocabulary.encode(
        "saß"
    )  # listed, unknown to SentencePiece


@pytest.mark.parametrize("prefix", [None, ">>deu<<"])
def test_sentences_of_other_toolkits_one_by_one_and_all_at_once(prefix: str | None) -> None:
    vocabulary, texts = foreign(prefix), [*ENGLISH[:4], "", "It"]
    tokens, lengths = vocabulary.encode_all(texts)
    assert tokens.tolist() == [token for text in texts for token in vocabulary.encode(text)]
    assert lengths.tolist() == [len(vocabulary.encode(text)) for text in texts]
    assert lengths[4] == 0


def test_the_prefix_is_in_front_of_every_sentence_and_no_part_of_the_text() -> None:
    plain, vocabulary = foreign(), foreign(">>deu<<")
    tokens = vocabulary.encode("It was here.")
    assert vocabulary.piece(tokens[0]) == ">>deu<<"
    assert tokens[1:] == plain.encode("It was here.")
    assert vocabulary.decode([2, *tokens, 3]) == plain.decode(tokens[1:])


def test_pieces_become_text_as_in_sentencepiece() -> None:
    vocabulary = foreign()
    ids = [vocabulary.listed.pieces.index(piece) + SPECIALS for piece in ("▁", "ß", "t", "▁", "e")]
    assert vocabulary.decode(ids) == "ßt e"


def test_a_saved_list_of_pieces_is_loaded(tmp_path: Path) -> None:
    source, target = foreign(">>deu<<"), foreign()
    Tokenizer(source, target).save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.source, loaded.target) == (source, target)
    assert loaded.source != target
    assert not loaded.joint
    (tmp_path / "target.pieces.json").write_text('{"pieces": []}')
    with pytest.raises(FocatError, match=r"target\.pieces\.json: does not hold the pieces of a vocabulary"):
        Tokenizer.load(tmp_path)


def test_the_tokenizer_of_a_run(tmp_path: Path) -> None:
    tokenizer = Tokenizer(foreign(), foreign())
    tokenizer.save(tmp_path / "tokenizer")
    settings = TokenizerSettings(from_run=tmp_path)
    found = train_tokenizer(settings, NormalisationSettings(), [], [])
    assert found.source == tokenizer.source
    with pytest.raises(FocatError, match=r"normalisation: is not that of .*; set unicode: none, lowercase: False"):
        train_tokenizer(settings, NormalisationSettings(lowercase=True), [], [])

"""Every corpus format: written and read back, capped, and refused with the file and line where it is broken."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from focat.config.corpora import AnyCorpus
from focat.corpus.document import Document
from focat.corpus.readers import read_documents
from focat.errors import FocatError
from tests.corpus.test_text_files import COMPRESS, write

DOCUMENTS = [
    Document("first", ["Where is it?", "It is here."], ["Wo ist er?", "Er ist hier."]),
    Document("second", ["Hello.\u2028Hi.", " Bye. ", "Привет"], ["Hallo.", "Tschüs.\x85", "a\rb"]),
]


def corpus_settings(format: str, **values: object) -> AnyCorpus:
    corpus: AnyCorpus = TypeAdapter(AnyCorpus).validate_python({"format": format, **values})
    return corpus


def lines(sentences: list[str]) -> str:
    return "".join(f"{sentence}\n" for sentence in sentences)


def write_text(folder: Path, documents: list[Document], suffix: str) -> AnyCorpus:
    source = "\n".join(lines(document.source) for document in documents)
    target = "\n".join(lines(document.target) for document in documents)
    return two_files(folder, "text", source, target, suffix)


def write_ids(folder: Path, documents: list[Document], suffix: str) -> AnyCorpus:
    source = "".join(lines(document.source) for document in documents)
    target = "".join(lines(document.target) for document in documents)
    ids = "".join(lines([document.name] * len(document.source)) for document in documents)
    return two_files(folder, "ids", source, target, suffix, documents=write(folder / f"ids{suffix}", ids))


def write_fragments(folder: Path, documents: list[Document], suffix: str) -> AnyCorpus:
    source = lines([" _eos ".join(document.source) for document in documents])
    target = lines([" _eos ".join(document.target) for document in documents])
    return two_files(folder, "fragments", source, target, suffix)


def write_wit3(folder: Path, documents: list[Document], suffix: str) -> AnyCorpus:
    tag = "<talkid>{}</talkid>\n".format
    source = "".join(tag(document.name) + lines(document.source) for document in documents)
    target = "".join(tag(document.name) + lines(document.target) for document in documents)
    return two_files(folder, "wit3", source, target, suffix)


def write_tsv2(folder: Path, documents: list[Document], suffix: str) -> AnyCorpus:
    text = "\n".join(lines([f"{source}\t{target}" for _, source, target in rows(document)]) for document in documents)
    return one_file(folder, "tsv", text, suffix)


def write_tsv3(folder: Path, documents: list[Document], suffix: str) -> AnyCorpus:
    return one_file(folder, "tsv", lines(["\t".join(row) for each in documents for row in rows(each)]), suffix)


def write_json_sentences(folder: Path, documents: list[Document], suffix: str) -> AnyCorpus:
    fields = ("document", "source", "target")
    records = [dict(zip(fields, row, strict=True)) for document in documents for row in rows(document)]
    return one_file(folder, "jsonl", lines([json.dumps(record) for record in records]), suffix)


def write_json_documents(folder: Path, documents: list[Document], suffix: str) -> AnyCorpus:
    records = [{"document": each.name, "source": each.source, "target": each.target} for each in documents]
    text = lines([json.dumps(record, ensure_ascii=False) for record in records])
    return one_file(folder, "jsonl", text, suffix)


def rows(document: Document) -> list[tuple[str, str, str]]:
    return [(document.name, *pair) for pair in zip(document.source, document.target, strict=True)]


def one_file(folder: Path, format: str, text: str | bytes, suffix: str = "", **values: object) -> AnyCorpus:
    return corpus_settings(format, path=write(folder / f"corpus{suffix}", text), **values)


def two_files(folder: Path, format: str, source: str, target: str, suffix: str = "", **values: object) -> AnyCorpus:
    paths = {
        "source": write(folder / f"corpus.en{suffix}", source),
        "target": write(folder / f"corpus.de{suffix}", target),
    }
    return corpus_settings(format, **paths, **values)


NAMED = [write_ids, write_tsv3, write_json_sentences, write_json_documents, write_wit3]
NAMED_BY_LINE = [write_text, write_tsv2, write_fragments]
WITH_EMPTY_SENTENCES = [*NAMED, write_tsv2, write_fragments]

sentences = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\t\ufeff"), max_size=12).filter(
    lambda text: not text.endswith("\r") and not text.startswith("<") and "_eos" not in text
)


def corpora(sentences: st.SearchStrategy[str]) -> st.SearchStrategy[list[Document]]:
    texts = st.lists(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=5), min_size=1, max_size=4)
    return texts.map(
        lambda texts: [
            Document(f"№ {index}", [source for source, _ in pairs], [target for _, target in pairs])
            for index, pairs in enumerate(texts)
        ]
    )


@settings(max_examples=50, deadline=None)
@given(documents=corpora(sentences.filter(lambda text: text.strip() != "")), suffix=st.sampled_from(list(COMPRESS)))
def test_documents_come_back_as_they_were_written(documents: list[Document], suffix: str) -> None:
    with TemporaryDirectory() as folder:
        for write_corpus in NAMED:
            assert list(read_documents(write_corpus(Path(folder), documents, suffix))) == documents
        for write_corpus in NAMED_BY_LINE:
            read = read_documents(write_corpus(Path(folder), documents, suffix))
            assert [(each.source, each.target) for each in read] == [(each.source, each.target) for each in documents]


@settings(max_examples=50, deadline=None)
@given(documents=corpora(sentences))
def test_empty_sentences_are_kept_where_a_blank_line_is_no_boundary(documents: list[Document]) -> None:
    with TemporaryDirectory() as folder:
        for write_corpus in WITH_EMPTY_SENTENCES:
            read = read_documents(write_corpus(Path(folder), documents, ""))
            assert [(each.source, each.target) for each in read] == [(each.source, each.target) for each in documents]


@pytest.mark.parametrize("suffix", list(COMPRESS))
@pytest.mark.parametrize(
    ("write_corpus", "names"),
    [
        *((write_corpus, ["first", "second"]) for write_corpus in NAMED),
        (write_text, ["corpus.en:1", "corpus.en:4"]),
        (write_tsv2, ["corpus:1", "corpus:4"]),
        (write_fragments, ["corpus.en:1", "corpus.en:2"]),
    ],
)
def test_names_and_compression(tmp_path: Path, write_corpus, names: list[str], suffix: str) -> None:  # type: ignore[no-untyped-def]
    documents = list(read_documents(write_corpus(tmp_path, DOCUMENTS, suffix)))
    assert [(each.source, each.target) for each in documents] == [(each.source, each.target) for each in DOCUMENTS]
    assert [each.name.replace(suffix, "") for each in documents] == names


@settings(max_examples=50, deadline=None)
@given(
    documents=corpora(st.just("x")),
    max_documents=st.none() | st.integers(1, 5),
    max_pairs=st.none() | st.integers(1, 20),
)
def test_caps(documents: list[Document], max_documents: int | None, max_pairs: int | None) -> None:
    pairs = [row for document in documents[:max_documents] for row in rows(document)][:max_pairs]
    with TemporaryDirectory() as folder:
        corpus = write_ids(Path(folder), documents, "")
        capped = corpus.model_copy(update={"max_documents": max_documents, "max_pairs": max_pairs})
        read = list(read_documents(capped))
    assert [row for document in read for row in rows(document)] == pairs
    assert all(document.source for document in read)


def test_a_cap_stops_the_reading(tmp_path: Path) -> None:
    good = '{"document": 1, "source": ["a", "b"], "target": ["A", "B"]}\n'
    for cap in ({"max_documents": 1}, {"max_pairs": 2}, {"max_pairs": 1}):
        assert len(list(read_documents(one_file(tmp_path, "jsonl", good + good + "broken\n", **cap)))) == 1


def test_several_blank_lines_are_one_boundary(tmp_path: Path) -> None:
    corpus = two_files(tmp_path, "text", "\na\n \n\nb\n\n", "\t\nA\n\n\u3000\nB\n\n")
    assert list(read_documents(corpus)) == [
        Document("corpus.en:2", ["a"], ["A"]),
        Document("corpus.en:5", ["b"], ["B"]),
    ]
    corpus = one_file(tmp_path, "tsv", "\na\tA\n\n \nb\tB\n\t\n")
    assert list(read_documents(corpus)) == [
        Document("corpus:2", ["a"], ["A"]),
        Document("corpus:5", ["b", ""], ["B", ""]),
    ]


def test_json_sentences_and_documents_may_be_mixed(tmp_path: Path) -> None:
    records = [
        {"source": ["a"], "target": ["A"], "document": 7, "genre": "film"},
        {"source": ["b"], "target": ["B"], "document": 7},
        {"source": "c", "target": "C", "document": 7},
        {"source": "d", "target": "D", "document": "7"},
        {"source": [], "target": []},
        {"source": ["e"], "target": ["E"]},
    ]
    corpus = one_file(tmp_path, "jsonl", "\n".join(json.dumps(record) for record in records) + "\n\n")
    assert list(read_documents(corpus)) == [
        Document("7", ["a"], ["A"]),
        Document("7", ["b"], ["B"]),
        Document("7", ["c", "d"], ["C", "D"]),
        Document("corpus:6", ["e"], ["E"]),
    ]


def message_of(corpus: AnyCorpus, folder: Path) -> str:
    with pytest.raises(FocatError) as caught:
        list(read_documents(corpus))
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("source", "target", "blank", "other"), [("a\n\nb\n", "A\nB\nC\n", "en", "de"), ("a\nb\n", "A\n \n", "de", "en")]
)
def test_a_boundary_on_one_side_only(tmp_path: Path, source: str, target: str, blank: str, other: str) -> None:
    assert message_of(two_files(tmp_path, "text", source, target), tmp_path) == (
        f"corpus.{blank}, line 2: blank, but the same line of corpus.{other} is not; "
        "a blank line between documents stands on both sides (format `ids` can hold empty sentences)"
    )


@pytest.mark.parametrize("format", ["text", "fragments"])
def test_unequal_numbers_of_lines(tmp_path: Path, format: str) -> None:
    assert message_of(two_files(tmp_path, format, "a\nb\n", "A\nB\nC\nD\n"), tmp_path) == (
        "corpus.en has 2 lines but corpus.de has 4: line 3 of corpus.de has no partner; "
        "the files must correspond line for line"
    )


def test_ids_that_are_missing(tmp_path: Path) -> None:
    ids = write(tmp_path / "ids", "1\n1\n")
    assert message_of(two_files(tmp_path, "ids", "a\nb\nc\n", "A\nB\nC\n", documents=ids), tmp_path) == (
        "ids has 2 lines but corpus.en has 3: line 3 of corpus.en has no partner; "
        "the files must correspond line for line"
    )
    write(ids, "1\n\n1\n")
    assert message_of(two_files(tmp_path, "ids", "a\nb\nc\n", "A\nB\nC\n", documents=ids), tmp_path) == (
        "ids, line 2: no document id; every sentence needs one"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\nonly\n", "line 2: 1 column between tabs; expected `source, target` or `document, source, target`"),
        ("a\tb\tc\td\n", "line 1: 4 columns between tabs; expected `source, target` or `document, source, target`"),
        ("\na\tA\nb\tB\tC\n", "line 3: 3 columns between tabs, but line 2 has 2"),
        ("1\ta\tA\n1\tb\n", "line 2: 2 columns between tabs, but line 1 has 3"),
        ("1\ta\tA\n \tb\tB\n", "line 2: the first of three columns, the document's id, is empty"),
    ],
)
def test_columns(tmp_path: Path, text: str, problem: str) -> None:
    assert message_of(one_file(tmp_path, "tsv", text), tmp_path) == f"corpus, {problem}"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON at column 2 (Expecting property name enclosed in double quotes); expected one object per line"),
        ("[1]", "a list; expected an object with `source`, `target` and `document`"),
        ('{"source": "a"}', "no field `target`; expected `source`, `target` and `document`"),
        ('{"target": "a"}', "no field `source`; expected `source`, `target` and `document`"),
        ('{"source": "a", "target": "b"}', "no field `document`; a sentence needs the id of its document"),
        ('{"source": 1.5, "target": "b"}', "`source` is a number; expected a sentence or a list of sentences"),
        ('{"source": ["a"], "target": null}', "`target` is null; expected a sentence or a list of sentences"),
        ('{"source": ["a"], "target": [["b"]]}', "`target[0]` is a list; expected a string"),
        ('{"source": ["a", true], "target": []}', "`source[1]` is a truth value; expected a string"),
        ('{"source": ["a"], "target": []}', "unequal numbers of sentences: 1 in `source`, 0 in `target`"),
        (
            '{"source": "a", "target": ["b"], "document": "d"}',
            "`source` and `target` must be both one sentence or both a list of sentences",
        ),
        (
            '{"source": "a", "target": "b", "document": {}}',
            "`document` is an object; expected a string or a number without fraction",
        ),
        (
            '{"source": "a", "target": "b", "document": true}',
            "`document` is a truth value; expected a string or a number without fraction",
        ),
        (
            '{"source": ["a", "b\\ud83d!"], "target": ["", ""]}',
            "`source[1]` holds \\ud83d, half of a surrogate pair; write the whole character",
        ),
        (
            '{"source": [], "target": [], "document": "\\udc00"}',
            "`document` holds \\udc00, half of a surrogate pair; write the whole character",
        ),
    ],
)
def test_json_fields(tmp_path: Path, line: str, problem: str) -> None:
    good = '{"source": ["\\ud83d\\ude00"], "target": ["b"]}\n\n'
    assert message_of(one_file(tmp_path, "jsonl", f"{good}{line}\n"), tmp_path) == f"corpus, line 3: {problem}"


@pytest.mark.parametrize("line", ["[" * 100_000, "9" * 100_000])
def test_json_beyond_reason(tmp_path: Path, line: str) -> None:
    assert message_of(one_file(tmp_path, "jsonl", line), tmp_path).startswith("corpus, line 1: ")


def test_fragments_of_unequal_length(tmp_path: Path) -> None:
    assert message_of(two_files(tmp_path, "fragments", "a\nb _eos c\n", "A\nB\n"), tmp_path) == (
        "corpus.en, line 2: unequal numbers of sentences: 2 here, 1 in the same line of corpus.de; "
        "sentences joined by ` _eos ` must correspond one by one"
    )


@pytest.mark.parametrize("content", ["", "\n\n"])
@pytest.mark.parametrize("format", ["text", "tsv", "jsonl", "wit3"])
def test_an_empty_corpus(tmp_path: Path, format: str, content: str) -> None:
    if format in ("tsv", "jsonl"):
        corpus, files = one_file(tmp_path, format, content), "corpus"
    else:
        corpus, files = two_files(tmp_path, format, content, content), "corpus.en and corpus.de"
    assert message_of(corpus, tmp_path) == f"{files}: not a single sentence pair; is this the right file?"


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    corpus = one_file(tmp_path, "tsv", b"a\tb\nc\t\xff\n", ".gz")
    assert message_of(corpus, tmp_path).startswith("corpus.gz, line 2: byte 0xFF at column 3 is not UTF-8; save")


def test_the_generated_corpus() -> None:
    pytest.importorskip("focat.corpus.generated")
    corpus = corpus_settings("generated", documents=3, seed=5)
    documents = list(read_documents(corpus))
    assert len(documents) == 3
    assert documents == list(read_documents(corpus))

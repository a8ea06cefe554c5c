"""What `prepare` makes, against a slow second version of it; and when it makes it again, and when not."""

from __future__ import annotations

import io
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from focat.config.data import DataSettings
from focat.corpus import prepare as prepare_module
from focat.corpus.prepare import _EvenSample, prepare
from focat.corpus.readers import read_documents
from focat.corpus.store import Store
from focat.errors import FocatError
from focat.files import PARTIAL_SUFFIX
from focat.progress import NULL_PROGRESS, Progress

WORDS = {"cat": "Katze", "dog": "Hund", "house": "Haus", "sees": "sieht", "the": "das", "2": "2", "жук": "Käfer"}


def write_corpus(folder: Path, name: str, documents: int, seed: int = 1) -> dict[str, Any]:
    """Two text files of random sentences, some 4 to a document; as it stands in settings."""
    draw = random.Random(seed)
    source, target = [], []
    for _ in range(documents):
        for _ in range(draw.randint(1, 7)):
            words = draw.choices(list(WORDS), k=draw.randint(1, 9))
            source.append(" ".join(words))
            target.append(" ".join(WORDS[word] for word in words))
        source.append("")
        target.append("")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.en").write_text("\n".join(source), encoding="utf-8")
    (folder / f"{name}.de").write_text("\n".join(target), encoding="utf-8")
    return {"format": "text", "source": str(folder / f"{name}.en"), "target": str(folder / f"{name}.de")}


def settings(folder: Path, **more: Any) -> DataSettings:
    """Settings over the corpora in a folder, which are written if they are not there."""
    values: dict[str, Any] = {
        "store": str(folder / "store"),
        "train": [write_corpus(folder, "train", 40)],
        "dev": [write_corpus(folder, "dev", 5, seed=2)],
        "tokenizer": {"vocabulary": 300},
    }
    return DataSettings.model_validate(values | more)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def written_at(folder: Path) -> dict[str, tuple[int, int]]:
    """When each file was written, and its inode: a file written again shows, however fast."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_ino) for path in paths}


# ------------------------------------------------------------------------------------------------ what is in a store


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("chunk", [7, 50_000])
def test_a_store_holds_each_sentence_encoded_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joint: bool, chunk: int
) -> None:
    """Encoding goes in chunks of many documents on all cores; here also in chunks that end within the corpus."""
    monkeypatch.setattr(prepare_module, "_CHUNK", chunk)
    data = settings(tmp_path, tokenizer={"vocabulary": 300, "joint": joint})
    manifest = prepare(data, NULL_PROGRESS)
    store = Store(data.store)
    assert store.manifest == manifest
    assert store.splits == ["train", "dev"]
    for name in store.splits:
        documents = list(read_documents(getattr(data, name)[0]))
        split = store.split(name)
        sentences = 0
        for index, document in enumerate(documents):
            assert split.documents[index] == sentences
            for source, target in zip(document.source, document.target, strict=True):
                assert split.source[sentences].tolist() == store.tokenizer.source.encode(source)
                assert split.target[sentences].tolist() == store.tokenizer.target.encode(target)
                assert split.document_of[sentences] == index
                sentences += 1
        assert len(split) == split.documents[-1] == sentences
        assert len(split.documents) == len(documents) + 1


def test_the_manifest_counts(tmp_path: Path) -> None:
    source = ["a b c", "", "same", "d e", "a very long sentence of this corpus", "f"]
    target = ["A B C", "E", "same", "D E", "A VERY LONG SENTENCE OF THIS CORPUS", "F"]
    for name, sentences in (("source", source), ("target", target)):
        (tmp_path / name).write_text("\n".join(sentences) + "\n")
    (tmp_path / "ids").write_text("one\none\none\ntwo\ntwo\nthree\n")
    corpus = {"format": "ids", **{name: str(tmp_path / name) for name in ("source", "target")}}
    corpus["documents"] = str(tmp_path / "ids")
    data = settings(
        tmp_path,
        source_language="xx",
        train=[corpus],
        dev=[corpus],
        cleaning={"identical": True, "max_characters": 20},
    )
    manifest = prepare(data, NULL_PROGRESS)

    train = manifest["splits"]["train"]
    assert train["removed"] == {"empty": 1, "identical": 1, "too long": 1, "ratio": 0}
    assert train["read"] == 6
    assert train["pairs"] == 3
    assert train["documents"] == 3
    assert train["pairs"] + sum(train["removed"].values()) == train["read"]

    dev = manifest["splits"]["dev"]  # what is measured on is never cleaned
    assert dev["pairs"] == dev["read"] == 6
    assert not any(dev["removed"].values())

    store = Store(data.store)
    lengths = [len(store.tokenizer.source.encode(sentence)) for sentence in ("a b c", "d e", "f")]
    assert train["source"]["average_length"] == pytest.approx(sum(lengths) / 3, abs=1e-4)
    assert store.average_length == train["source"]["average_length"]
    assert manifest["source_vocabulary"] == store.tokenizer.source.size
    assert (manifest["source_language"], manifest["target_language"]) == ("xx", "de")
    assert json.loads((data.store / "manifest.json").read_text()) == manifest


def test_several_corpora_follow_each_other_each_with_its_caps(tmp_path: Path) -> None:
    first = write_corpus(tmp_path, "first", 20, seed=3) | {"max_documents": 2}
    second = write_corpus(tmp_path, "second", 20, seed=4) | {"max_pairs": 9}
    data = settings(tmp_path, train=[first, second])
    prepare(data, NULL_PROGRESS)
    store = Store(data.store)
    split = store.split("train")
    sentences = [store.tokenizer.source.decode(split.source[index]) for index in range(len(split))]
    expected = [list(read_documents(corpus)) for corpus in data.train]
    assert len(expected[0]) == 2
    assert sum(len(document.source) for document in expected[1]) == 9
    assert sentences == [s for documents in expected for document in documents for s in document.source]


def test_the_generated_corpus_needs_no_files(tmp_path: Path) -> None:
    data = settings(
        tmp_path,
        train=[{"format": "generated", "documents": 20}],
        dev=[{"format": "generated", "documents": 3, "seed": 2}],
        tokenizer={"vocabulary": 400},
    )
    manifest = prepare(data, NULL_PROGRESS)
    assert manifest["splits"]["train"]["documents"] == 20
    assert manifest["splits"]["train"]["inputs"] == [{"format": "generated", "documents": 20, "seed": 1}]
    assert prepare(data, NULL_PROGRESS) == manifest


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("joint", [True, False])
def test_a_vocabulary_that_the_corpus_cannot_fill_is_smaller_and_said_to_be(
    tmp_path: Path, kind: str, joint: bool
) -> None:
    said = io.StringIO()
    asked = {"vocabulary": 32_000, "joint": joint, "kind": kind}
    manifest = prepare(settings(tmp_path, tokenizer=asked), Progress(said))
    sizes = list(dict.fromkeys([manifest["source_vocabulary"], manifest["target_vocabulary"]]))
    assert max(sizes) < 32_000
    became = f"became {' and '.join(map(str, sizes))}, all that the training corpus can fill"
    assert f"data.tokenizer.vocabulary = 32000: {became}" in said.getvalue().splitlines()
    filled = settings(tmp_path, store=str(tmp_path / "filled"), tokenizer=asked | {"vocabulary": min(sizes)})
    prepare(filled, Progress(said := io.StringIO()))
    assert "became" not in said.getvalue()


def test_a_model_brought_along_is_used_as_it_is(tmp_path: Path) -> None:
    prepare(settings(tmp_path), NULL_PROGRESS)
    model = tmp_path / "store" / "tokenizer" / "source.model"
    data = settings(tmp_path, store=str(tmp_path / "second"), tokenizer={"source_model": str(model)})
    said = io.StringIO()
    prepare(data, Progress(said))
    assert "reading the tokenizer" in said.getvalue()
    assert "training the tokenizer" not in said.getvalue()
    assert Store(data.store).tokenizer.source.model == model.read_bytes()
    assert (data.store / "train" / "source.tokens").read_bytes() == (
        tmp_path / "store" / "train" / "source.tokens"
    ).read_bytes()


# ------------------------------------------------------------------------------------------------ the same again


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_copies_of_the_inputs_elsewhere_give_the_same_bytes(tmp_path: Path, kind: str) -> None:
    """Every file: nothing of paths, times or the order of a folder's listing is in a store."""
    here = settings(tmp_path / "here", tokenizer={"kind": kind, "vocabulary": 300})
    there = settings(tmp_path / "over" / "there", tokenizer={"kind": kind, "vocabulary": 300})
    prepare(here, NULL_PROGRESS)
    prepare(there, NULL_PROGRESS)
    assert files_in(here.store) == files_in(there.store)
    assert len(files_in(here.store)) == 3 + 2 * 7 + 1  # tokenizer (joint), train and dev, manifest


def test_what_is_there_is_not_made_twice(tmp_path: Path) -> None:
    data = settings(tmp_path)
    manifest = prepare(data, NULL_PROGRESS)
    before = written_at(data.store)
    out = io.StringIO()
    assert prepare(data, Progress(out)) == manifest
    assert out.getvalue() == f"{data.store} is up to date\n"
    assert prepare(data, NULL_PROGRESS, overwrite=True) == manifest
    assert written_at(data.store) == before


def test_moving_the_inputs_changes_nothing(tmp_path: Path) -> None:
    data = settings(tmp_path / "here")
    prepare(data, NULL_PROGRESS)
    moved = settings(tmp_path / "there", store=str(data.store))
    before = written_at(data.store)
    prepare(moved, NULL_PROGRESS)
    assert written_at(data.store) == before


CHANGES: dict[str, dict[str, Any]] = {
    "cleaning": {"cleaning": {"identical": True}},
    "normalisation": {"normalisation": {"lowercase": True}},
    "vocabulary": {"tokenizer": {"vocabulary": 310}},
    "language": {"target_language": "fr"},
    "no dev": {"dev": []},
    "generated": {"dev": [{"format": "generated", "documents": 3}]},
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_settings_are_refused_unless_overwritten(tmp_path: Path, change: str) -> None:
    """And what is then there is what a fresh store would hold: nothing of the old one is left."""
    data = settings(tmp_path / "data")
    prepare(data, NULL_PROGRESS)
    before = files_in(data.store)
    changed = settings(tmp_path / "data", **CHANGES[change])
    with pytest.raises(FocatError, match=r"prepared from other corpora or settings; .* or overwrite this one"):
        prepare(changed, NULL_PROGRESS)
    assert files_in(data.store) == before

    prepare(changed, NULL_PROGRESS, overwrite=True)
    fresh = changed.model_copy(update={"store": tmp_path / "fresh"})
    prepare(fresh, NULL_PROGRESS)
    assert files_in(changed.store) == files_in(fresh.store) != before


def test_a_changed_input_is_noticed(tmp_path: Path) -> None:
    """By its bytes: here one letter changes, and neither length nor time of the file does."""
    data = settings(tmp_path)
    prepare(data, NULL_PROGRESS)
    source = tmp_path / "train.en"
    time = source.stat().st_mtime_ns
    source.write_bytes(source.read_bytes().replace(b"cat", b"cot", 1))
    os.utime(source, ns=(time, time))
    with pytest.raises(FocatError, match="prepared from other corpora"):
        prepare(data, NULL_PROGRESS)
    prepare(data, NULL_PROGRESS, overwrite=True)
    store = Store(data.store)
    split = store.split("train")
    assert any("cot" in store.tokenizer.source.decode(split.source[index]) for index in range(len(split)))


def test_a_split_added_later_leaves_the_others_alone(tmp_path: Path) -> None:
    data = settings(tmp_path, dev=[])
    prepare(data, NULL_PROGRESS)
    before = written_at(data.store)
    with_dev = settings(tmp_path)
    manifest = prepare(with_dev, NULL_PROGRESS, overwrite=True)
    after = written_at(data.store)
    assert list(manifest["splits"]) == ["train", "dev"]
    assert {name: when for name, when in after.items() if name in before and name != "manifest.json"} == {
        name: when for name, when in before.items() if name != "manifest.json"
    }
    assert len(Store(data.store).split("dev")) == manifest["splits"]["dev"]["pairs"]


def test_a_damaged_manifest_is_made_again_from_what_is_there(tmp_path: Path) -> None:
    data = settings(tmp_path)
    prepare(data, NULL_PROGRESS)
    before = files_in(data.store)
    for damage in (b'{"version": 1, "ke', b"[]"):
        (data.store / "manifest.json").write_bytes(damage)
        prepare(data, NULL_PROGRESS)
        assert files_in(data.store) == before


# ------------------------------------------------------------------------------------------------ what is refused


def test_no_corpus_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FocatError, match=r"^data\.train: names no corpus"):
        prepare(settings(tmp_path, train=[]), NULL_PROGRESS)
    assert not (tmp_path / "store").exists()


def test_a_corpus_that_cleaning_empties_is_refused(tmp_path: Path) -> None:
    data = settings(tmp_path, cleaning={"identical": True, "max_characters": 1})
    with pytest.raises(
        FocatError, match=r"^data\.train: cleaning left no pair \(\d+ identical, \d+ too long\); relax data\.cleaning"
    ):
        prepare(data, NULL_PROGRESS)
    assert files_in(data.store) == {}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["tokenizer/notes.txt", "train/raw.en", "dev/raw.en", "test/raw.en", "manifest.json"])
def test_what_prepare_did_not_make_is_refused_and_kept(tmp_path: Path, name: str, overwrite: bool) -> None:
    """The folder of the store may be one that the user keeps other things in."""
    data = settings(tmp_path)
    file = data.store / name
    file.parent.mkdir(parents=True)
    file.write_text('{"name": "mine"}')
    with pytest.raises(FocatError, match=r"move it away, or give another data\.store"):
        prepare(data, NULL_PROGRESS, overwrite)
    assert files_in(data.store) == {name: b'{"name": "mine"}'}


@pytest.mark.parametrize("name", ["dev/stage.json", "manifest.json"])
def test_files_of_another_tool_with_the_same_names_are_kept(tmp_path: Path, name: str) -> None:
    data = settings(tmp_path)
    file = data.store / name
    file.parent.mkdir(parents=True)
    file.write_text('{"key": "mine", "keys": {"train": "mine"}}')
    before = files_in(data.store)
    with pytest.raises(FocatError, match=r"move it away, or give another data\.store"):
        prepare(data, NULL_PROGRESS, overwrite=True)
    assert files_in(data.store) == before


def test_a_manifest_of_another_tool_beside_stages_is_kept(tmp_path: Path) -> None:
    """Written after `focat prepare` was interrupted, which leaves stages without a manifest."""
    data = settings(tmp_path)
    prepare(data, NULL_PROGRESS)
    (data.store / "manifest.json").write_text('{"name": "mine"}')
    before = files_in(data.store)
    with pytest.raises(FocatError, match=r"manifest\.json: is no manifest of a token store"):
        prepare(data, NULL_PROGRESS, overwrite=True)
    assert files_in(data.store) == before


def test_a_stage_behind_a_link_is_made_again_there(tmp_path: Path) -> None:
    """A larger disk, for example."""
    data = settings(tmp_path)
    prepare(data, NULL_PROGRESS)
    (data.store / "train").rename(tmp_path / "elsewhere")
    (data.store / "train").symlink_to(tmp_path / "elsewhere")
    for vocabulary in (310, 320, 330):
        prepare(settings(tmp_path, tokenizer={"vocabulary": vocabulary}), NULL_PROGRESS, overwrite=True)
        assert (data.store / "train").is_symlink()
        Store(data.store).verify()


def test_a_file_that_was_put_into_a_store_is_kept(tmp_path: Path) -> None:
    """A raw corpus, for example, in the folder of the split that it is for."""
    data = settings(tmp_path)
    prepare(data, NULL_PROGRESS)
    (data.store / "train" / "more.en").write_text("mine")
    prepare(data, NULL_PROGRESS)  # is up to date
    before = files_in(data.store)
    with pytest.raises(FocatError, match=r"store/train/more\.en: was not made by `focat prepare`"):
        prepare(settings(tmp_path, tokenizer={"vocabulary": 310}), NULL_PROGRESS, overwrite=True)
    assert files_in(data.store) == before


def test_a_store_needs_a_folder(tmp_path: Path) -> None:
    data = settings(tmp_path)
    data.store.write_text("mine")
    with pytest.raises(FocatError, match=r"store: is no folder; give another data\.store"):
        prepare(data, NULL_PROGRESS)
    data.store.unlink()
    data.store.symlink_to("nowhere")
    with pytest.raises(FocatError, match=r"store: is no folder; give another data\.store"):
        prepare(data, NULL_PROGRESS)


def test_only_unfinished_files_of_prepare_are_deleted(tmp_path: Path) -> None:
    data = settings(tmp_path)
    data.store.mkdir()
    for name in ("notes.unfinished", f"notes{PARTIAL_SUFFIX}", "train.unfinished"):
        (data.store / name).write_text("mine")
    (data.store / f"train{PARTIAL_SUFFIX}").mkdir()
    prepare(data, NULL_PROGRESS)
    for name in ("notes.unfinished", f"notes{PARTIAL_SUFFIX}", "train.unfinished"):
        assert (data.store / name).read_text() == "mine"
    assert not (data.store / f"train{PARTIAL_SUFFIX}").exists()


# ------------------------------------------------------------------------------------------------ damage


STORED = [
    "tokenizer/source.model",
    "tokenizer/tokenizer.json",
    "train/source.tokens",
    "train/split.json",
    "dev/documents",
]


@pytest.mark.parametrize("name", [*STORED, "manifest.json"])
@pytest.mark.parametrize("how", ["flipped", "emptied", "missing"])
def test_damage_to_a_store_is_mended_by_prepare_and_refused_by_training(tmp_path: Path, name: str, how: str) -> None:
    """Also damage that no size shows: one bit of an array."""
    data = settings(tmp_path)
    prepare(data, NULL_PROGRESS)
    before = files_in(data.store)
    path = data.store / name
    content = bytearray(path.read_bytes())
    number = len(content) // 2
    if name == "manifest.json":  # the last digit of a number, so that it stays JSON
        number = content.index(b"\n", content.index(b'"average_length": ')) - 1
    content[number] ^= 1
    path.write_bytes(content if how == "flipped" else b"")
    if how == "missing":
        path.unlink()
    with pytest.raises(FocatError, match="run `focat prepare`"):
        Store(data.store).verify()
    prepare(data, NULL_PROGRESS)
    assert files_in(data.store) == before
    Store(data.store).verify()


@pytest.mark.parametrize(
    "name", ["train/target.tokens", "train/split.json", "tokenizer/tokenizer.json", "tokenizer/source.model"]
)
def test_a_file_without_a_checksum_is_made_again(tmp_path: Path, name: str) -> None:
    data = settings(tmp_path)
    prepare(data, NULL_PROGRESS)
    before = files_in(data.store)
    stage, _, file = name.partition("/")
    path = data.store / stage / "stage.json"
    described = json.loads(path.read_text())
    del described["sha256"][file]
    path.write_text(json.dumps(described))
    with pytest.raises(FocatError, match=f"stage.json has no checksum of {file}; run `focat prepare` again"):
        Store(data.store).verify()
    prepare(data, NULL_PROGRESS)
    assert files_in(data.store) == before


def test_a_store_without_checksums_is_made_again_with_the_same_keys(tmp_path: Path) -> None:
    """As focat 0.1 wrote it: with the same keys, runs that were begun on it can be resumed."""
    data = settings(tmp_path)
    prepare(data, NULL_PROGRESS)
    before = files_in(data.store)
    for stage in ("tokenizer", "train", "dev"):
        path = data.store / stage / "stage.json"
        path.write_text(json.dumps({"key": json.loads(path.read_text())["key"]}))
    manifest = json.loads(before["manifest.json"]) | {"version": 1}
    (data.store / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FocatError, match="is a token store of version 1"):
        Store(data.store)
    prepare(data, NULL_PROGRESS)
    assert files_in(data.store) == before


# ------------------------------------------------------------------------------------------------ the sample


@pytest.mark.parametrize("most", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("pieces", [[1000], [1] * 1000, [3, 0, 17, 480, 499, 1]])
def test_a_sample_is_every_nth_sentence(most: int, pieces: list[int]) -> None:
    """However the stream is cut: from the first sentence on, by the least power of two that keeps within bounds."""
    sample = _EvenSample(most)
    start = 0
    for piece in pieces:
        sample.extend([str(number) for number in range(start, start + piece)])
        start += piece
    steps = [2**power for power in range(11) if len(range(0, 1000, 2**power)) <= most]
    assert sample.kept == [str(number) for number in range(0, 1000, steps[0])]


def test_a_corpus_below_the_cap_is_its_own_sample() -> None:
    sample = _EvenSample(1000)
    sample.extend(["a", "b"])
    sample.extend(["c"])
    assert sample.kept == ["a", "b", "c"]


def test_a_sample_is_forgotten_while_it_is_read() -> None:
    sample = _EvenSample(1000)
    sample.extend(["a", "b", "c"])
    sentences = sample.drain()
    assert next(sentences) == "a"
    assert sorted(sample.kept) == ["b", "c"]
    assert list(sentences) == ["b", "c"]
    assert sample.kept == []

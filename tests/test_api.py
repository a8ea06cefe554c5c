"""`focat.load` and what it gives: translations of lists of strings, streams, files, and attention."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import focat
from focat.errors import FocatError
from focat.files import write_json
from focat.run import Run
from tests.translation.tiny import tiny_run

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return tiny_run(folder)


@pytest.fixture(scope="module")
def model(run: Run) -> focat.Model:
    return focat.load(run.path)


def test_importing_focat_is_instant() -> None:
    """PyTorch comes with `focat.load`, not with `focat`."""
    line = "import focat, sys; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", line], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'lod'"):
        focat.lod  # type: ignore[attr-defined]  # noqa: B018


def test_a_notebook_completes_names_that_are_not_imported_yet() -> None:
    line = "import focat; print(*{*focat.__all__} - {*dir(focat)}); import sys; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stdout == "\n"


def test_a_model_says_what_it_is(model: focat.Model, run: Run) -> None:
    assert repr(model) == f"<focat.Model {run.path}: en to de, windows of {model.settings.windows.size} sentences>"
    both = focat.load([run.path, run.path])
    assert repr(both).startswith(f"<focat.Model {run.path}, {run.path}: en to de, ")


def test_what_goes_in_comes_out_in_the_same_shape(model: focat.Model) -> None:
    document = ["Where is the cat?", "", "It is old."]
    found = model.translate(document)
    assert [bool(text) for text in found] == [True, False, True]
    assert model.translate([document, [], document[:1]]) == [found, [], found[:1]]
    assert model.translate("Where is the cat?") == found[0]
    # In a text, a blank line stands between documents.
    assert model.translate("Where is the cat?\n\nIt is old.") == "\n".join(
        [found[0], "", *model.translate(["It is old."])]
    )
    assert (model.translate(""), model.translate([]), model.translate("\n")) == ("", [], "\n")


def test_a_mixture_is_refused(model: focat.Model) -> None:
    with pytest.raises(FocatError, match="not a mixture"):
        model.translate(["A.", ["B."]])  # type: ignore[list-item]


def test_a_sentence_is_no_document(model: focat.Model) -> None:
    with pytest.raises(FocatError, match="a document is a list of sentences"):
        list(model.stream(["Hi there."]))
    with pytest.raises(FocatError, match="lookahead = -1: at least one sentence"):
        model.stream([["Hi there."]], lookahead=-1)


def test_streams_without_end(model: focat.Model) -> None:
    documents = (["Where is the cat?", f"Tom is {number}."] for number in itertools.count())
    found = list(itertools.islice(model.stream(documents, lookahead=4, nbest=2), 3))
    assert [translation.source for translation in found[2]] == ["Where is the cat?", "Tom is 2."]
    assert all(len(translation.alternatives) == 2 for document in found for translation in document)


def test_files(model: focat.Model, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("Where is the cat?\nIt is old.\n")
    figures = model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt", window=1)
    assert figures.sentences == 2
    assert (tmp_path / "out.txt").read_text() == model.translate("Where is the cat?\nIt is old.\n", window=1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"context": "magic"}, "context = magic: choose from regenerate, reuse, none"),
        ({"beam": 0}, "beam = 0: should be greater than 0"),
        ({"nbest": 3}, "nbest is 3 but only 2 hypotheses are kept"),
        ({"bean": 4}, r"bean = 4: there is no such parameter; did you mean beam\?"),
        ({"contex": "none"}, r"contex = 'none': there is no such parameter; did you mean context\?"),
        ({"progress": None}, "progress = None: there is no such parameter"),
        ({"window": 0}, "window = 0"),
        ({"window": "2"}, "window = '2': should be a whole number"),
        ({"window": 2.5}, r"window = 2\.5: should be a whole number"),
        ({"window": True}, "window = True: should be a whole number"),
        ({"lookahead": "1"}, "lookahead = '1': should be a whole number"),
        ({"lookahead": 1.5}, r"lookahead = 1\.5: should be a whole number"),
        ({"constrained": "no"}, "constrained = 'no': should be True or False"),
        ({"temperature": 0.5}, r"temperature = 0\.5: has no effect without sample; turn sample on, or leave this out"),
        ({"top_p": 0.5, "sample": False}, r"top_p = 0\.5: has no effect without sample"),
        ({"beam": 3, "sample": True}, "beam = 3: has no effect with sample; leave one of the two out"),
        ({"seed": 3}, "seed = 3: has no effect without sample"),
    ],
)
def test_wrong_options(options: dict[str, Any], problem: str, model: focat.Model) -> None:
    with pytest.raises(FocatError, match=f"^(decoding: )?{problem}"):
        model.stream([["Hi."]], **options)


def test_translate_does_not_ignore_nbest(model: focat.Model) -> None:
    with pytest.raises(FocatError, match=r"nbest = 2: translate returns the best; stream\(documents, nbest=…\)"):
        model.translate("Hi.", nbest=2)
    assert model.translate("Hi.", nbest=1) == model.translate("Hi.")


_HALF = r"holds \\ud800, half of a surrogate pair; give the whole character"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "text = None: should be a string, a list of sentences or a list of lists of sentences"),
        (5, "text = 5: should be a string, a list"),
        (b"", "text = b'': should be a string, a list"),
        ({"Hi.": 1}, "text = {'Hi.': 1}: should be a string, a list"),
        ({"Hi."}, "text = {'Hi.'}: should be a string, a list"),
        ([None], r"text\[0\] = None: should be a list of sentences"),
        ([["Hi."], 5], r"text\[1\] = 5: should be a list of sentences"),
        ([["Hi."], {"Hi.": 1}], r"text\[1\] = {'Hi.': 1}: should be a list of sentences"),
        ([["Hi."], ["Hi.", None]], r"text\[1\]\[1\] = None: should be a sentence, a string"),
        ([b"Hi."], r"text\[0\] = b'Hi.': should be a list of sentences"),
        ("a\ud800", rf"text = .*: {_HALF}"),
        (["Hi.", "a\ud800"], rf"text\[1\] = .*: {_HALF}"),
        ([focat.InputSentence("Hi.", translation=5)], r"text\[0\]\.translation = 5: should be a sentence, a string"),  # type: ignore[arg-type]
        ([focat.InputSentence("Hi.", translation="a\ud800")], rf"text\[0\]\.translation = .*: {_HALF}"),
    ],
)
def test_what_is_no_text(text: Any, problem: str, model: focat.Model) -> None:
    with pytest.raises(FocatError, match=f"^{problem}"):
        model.translate(text)


def test_any_iterable_with_an_order_is_a_document(model: focat.Model) -> None:
    expected = model.translate(["Hi.", "Tom."])
    for document in (("Hi.", "Tom."), iter(["Hi.", "Tom."]), np.array(["Hi.", "Tom."])):
        assert model.translate(document) == expected  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        (None, "documents = None: should be a list of lists of sentences"),
        ({"a": ["Hi."]}, "documents = .*: should be a list of lists of sentences"),
        ([["Hi."], None], r"documents\[1\] = None: should be a list of sentences"),
        ([[None]], r"documents\[0\]\[0\] = None: should be a sentence"),
        ([["a\ud800"]], rf"documents\[0\]\[0\] = .*: {_HALF}"),
    ],
)
def test_what_is_no_document(documents: Any, problem: str, model: focat.Model) -> None:
    with pytest.raises(FocatError, match=f"^{problem}"):
        list(model.stream(documents))


def test_wrong_arguments_of_scores_and_attention(model: focat.Model) -> None:
    for method, first, second in ((model.score, "document", "hypotheses"), (model.attention, "source", "target")):
        for wrong in (None, "Hi.", {"Hi.": 1}, 5):
            with pytest.raises(FocatError, match=f"^{first} = .*: should be a list of sentences"):
                method(wrong, ["Hallo."])  # type: ignore[operator]
        with pytest.raises(FocatError, match=rf"^{second}\[0\] = .*: {_HALF}"):
            method(["Hi."], ["a\ud800"])  # type: ignore[operator]
    with pytest.raises(FocatError, match=r"^source = \[\]: should have a sentence"):
        model.attention([], [])
    with pytest.raises(FocatError, match=r"^window = '2': should be a whole number"):
        model.score(["Hi."], ["Hallo."], window="2")  # type: ignore[arg-type]
    with pytest.raises(FocatError, match=r"^precision = 'float99': choose from float32, bfloat16"):
        model.score_pairs([], precision="float99")  # type: ignore[arg-type]


def test_wrong_arguments_of_files(model: focat.Model, tmp_path: Path) -> None:
    with pytest.raises(FocatError, match=r"^input = None: should be a path"):
        model.translate_file(None)  # type: ignore[arg-type]
    with pytest.raises(FocatError, match=r"^output = 5: should be a path"):
        model.translate_file("in.txt", 5)  # type: ignore[arg-type]
    with pytest.raises(FocatError, match=r"^overwrit = True: there is no such parameter; did you mean overwrite\?"):
        model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt", overwrit=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((None,), "run = None: should be a folder, or a list of folders"),
        ((b"run",), "run = b'run': should be a folder"),
        (([None],), "run = None: should be a folder"),
        (("run", None), "device = None: should be the name of a device"),
        (("run", "cpu", "decoding.beam=2"), "overrides = 'decoding.beam=2': should be a list of settings"),
        (("run", "cpu", [5]), "overrides = 5: should be a list of settings"),
    ],
)
def test_wrong_arguments_of_load(arguments: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(FocatError, match=f"^{problem}"):
        focat.load(*arguments)


def test_wrong_runs(run: Run, tmp_path: Path) -> None:
    with pytest.raises(FocatError, match="holds no run"):
        focat.load(tmp_path)
    with pytest.raises(FocatError, match="name a run, or several"):
        focat.load([])
    with pytest.raises(FocatError, match="device = abacus: there is no such device"):
        focat.load(run.path, device="abacus")


def test_an_ensemble_of_one_system_with_itself_is_that_system(run: Run, model: focat.Model) -> None:
    document = ["Where is the cat?", "It is old."]
    twice = focat.load([run.path, run.path])
    (alone,), (both,) = model.stream([document]), twice.stream([document])
    assert [translation.text for translation in both] == [translation.text for translation in alone]
    assert [t.score for t in both] == pytest.approx([t.score for t in alone], abs=1e-5)


def test_averaged_weights_are_used(folder: Path) -> None:
    run = tiny_run(folder, seed=3)
    checkpoint = run.path / "checkpoints" / "0000001"
    (run.path / "best").write_text("0000001\n")
    before = focat.load(run.path).translate("Where is the cat?")
    run.averaged.mkdir()
    torch.manual_seed(9)
    changed = {name: torch.randn_like(tensor) for name, tensor in load_file(checkpoint / "weights.safetensors").items()}
    save_file(changed, run.averaged / "weights.safetensors")
    write_json(run.averaged / "average.json", {"best": 1})
    assert focat.load(run.path).translate("Where is the cat?") != before


class TestAttention:
    SOURCE, TARGET = ("Where is the cat?", "It is old."), ("Wo ist die Katze?", "Sie ist alt.")

    def test_between_tokens(self, model: focat.Model) -> None:
        found = model.attention(self.SOURCE, self.TARGET)
        assert found.source.count("<S>") == found.target.count("<S>") == 1
        assert (found.source[-1], found.target[-1]) == ("<E>", "<E>")
        read, written = len(found.source), len(found.target)
        for weights, queries, keys in (
            (found.encoder, read, read),
            (found.decoder, written, written),
            (found.cross, written, read),
        ):
            assert weights.shape == (1, 2, queries, keys)  # layers, heads
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        assert np.triu(found.decoder[0, 0], 1).max() == 0
        assert found.source_segments == [0] * (found.source.index("<S>") + 1) + [1] * (
            read - found.source.index("<S>") - 1
        )

    def test_between_words(self, model: focat.Model) -> None:
        tokens = model.attention(self.SOURCE, self.TARGET)
        words = tokens.by_word()
        assert words.source == ["Where", "is", "the", "cat?", "<S>", "It", "is", "old.", "<E>"]
        assert words.target_segments == [0] * 5 + [1] * 4
        for weights in (words.encoder, words.decoder, words.cross):
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        # by hand: how much the pieces of the last word but one look at those of "cat?"
        separator = tokens.source.index("<S>")
        cat = range(next(i for i in range(separator, -1, -1) if tokens.source[i].startswith("▁")), separator)
        old = list(range(separator + 1, len(tokens.source) - 1))
        old = old[next(i for i in reversed(range(len(old))) if tokens.source[old[i]].startswith("▁")) :]
        expected = sum(tokens.encoder[0, 1, q, k] for q in old for k in cat) / len(old)
        assert words.encoder[0, 1, 7, 3] == pytest.approx(expected, abs=1e-6)

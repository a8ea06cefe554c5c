"""Exported models compute what the run computes: logits, tokens, and whole documents, by the code of the model card."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import focat
from focat.corpus.vocabulary import PAD, SEPARATOR, START
from focat.errors import FocatError
from focat.interop.export import export_run
from focat.interop.import_model import import_model
from focat.interop.tokens import token_names
from focat.run import Run
from focat.windows.builder import join_window, pad_windows
from tests.interop.marian_models import random_marian
from tests.interop.models import DOCUMENT, random_run
from tests.training.launcher import Launcher
from tests.translation.tiny import tiny_run

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs the extra `interop`")
transformers = pytest.importorskip("transformers", reason="needs the extra `interop`")

SOURCE = [["Where is the cat?", "It is old."], ["Tom sleeps."]]
TARGET = [["Wo ist die Katze?", "Sie ist alt."], ["Tom schläft."]]
MARIAN = {"sinusoids": "marian"}
M2M100 = {"norm": "pre", "position_offset": 1, "embeddings": "shared"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interop")


def windows(run: Run) -> tuple[list[list[int]], list[list[int]]]:
    """Source and target windows of the same sentences, as token ids of the run."""
    sides = ((run.tokenizer.source, SOURCE), (run.tokenizer.target, TARGET))
    source, target = ([join_window(map(side.encode, window)) for window in texts] for side, texts in sides)
    return source, target


@torch.no_grad()
def logits_of(run: Run) -> list[Tensor]:
    """Of each token of each target window, (length, vocabulary) each."""
    model = run.load_model()
    source, target = windows(run)
    found = model.project(model(pad_windows(source, [1, 0]), pad_windows(target, [1, 0])))
    return [row[: len(tokens)] for row, tokens in zip(found, target, strict=True)]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("MarianMTModel", MARIAN),
        ("MarianMTModel", {**MARIAN, "embeddings": "shared", "activation": "gelu"}),
        ("MarianMTModel", {**MARIAN, "embeddings": "separate", "output_bias": True}),
        (
            "MarianMTModel",
            {**MARIAN, "activation": "silu", "output_bias": True, "start_embedding": "zero", "embeddings": "shared"},
        ),
        ("M2M100ForConditionalGeneration", M2M100),
        ("M2M100ForConditionalGeneration", {**M2M100, "embeddings": "tied", "position_offset": 2}),
        ("M2M100ForConditionalGeneration", {**M2M100, "embeddings": "separate"}),
    ],
)
def test_transformers_computes_the_same_logits(name: str, settings: dict[str, Any], folder: Path) -> None:
    assert_same_logits(random_run(folder, **settings), name)


@pytest.mark.skipif(transformers.__version__ < "5", reason="transformers 4 gives both vocabularies one size")
def test_transformers_computes_the_same_logits_with_two_vocabularies(tmp_path: Path) -> None:
    two = {"tokenizer": {"joint": False, "vocabulary": 3000}}  # more than the corpus can fill, on either side
    run = random_run(tmp_path, data=two, **MARIAN)
    assert run.tokenizer.source.size != run.tokenizer.target.size
    assert_same_logits(run, "MarianMTModel")
    pre_norm = random_run(tmp_path, data=two, **{**M2M100, "embeddings": "tied"})
    with pytest.raises(FocatError, match=r"data.tokenizer.joint = false: M2M100's class"):
        export_run(pre_norm, "hf", tmp_path / "exported")


@torch.no_grad()
def assert_same_logits(run: Run, name: str) -> None:
    """Export a run, and compare the logits of the model that transformers loads."""
    exported = run.path / "hf"
    export_run(run, "hf", exported)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(exported).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    assert type(model).__name__ == name
    source = tokenizer(["<S>".join(window) for window in SOURCE], return_tensors="pt", padding=True)
    target = tokenizer(text_target=["<S>".join(window) for window in TARGET], return_tensors="pt", padding=True)
    start = torch.full((2, 1), model.config.decoder_start_token_id)
    found = model(**source, decoder_input_ids=torch.cat((start, target.input_ids[:, :-1]), 1)).logits
    ids = {token: i for i, token in enumerate(token_names(run.tokenizer.target))}
    order = [ids[token] for token in tokenizer.convert_ids_to_tokens(range(found.shape[-1]))]
    for theirs, ours in zip(found, logits_of(run), strict=True):
        torch.testing.assert_close(theirs[: len(ours)], ours[:, order], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {**MARIAN, "activation": "silu", "output_bias": True, "start_embedding": "zero", "embeddings": "shared"},
        {"norm": "pre", "activation": "gelu", "embeddings": "separate", "output_bias": True},
        {"norm": "pre", "activation": "swiglu", "positions": "learned"},
        {"norm": "pre", "position_offset": 2},
    ],
)
def test_ctranslate2_computes_the_same_probabilities(settings: dict[str, Any], folder: Path) -> None:
    run = random_run(folder, **settings)
    exported = run.path / "ct2"
    export_run(run, "ct2", exported)
    translator = ctranslate2.Translator(str(exported), intra_threads=1)
    names = [token_names(side) for side in (run.tokenizer.source, run.tokenizer.target)]
    pieces = [
        [[names[i][token] for token in window[:-1]] for window in side] for i, side in enumerate(windows(run))
    ]  # CTranslate2 adds the end symbol by itself
    for found, logits, target in zip(translator.score_batch(*pieces), logits_of(run), windows(run)[1], strict=True):
        logits[:, [PAD, START]] = -torch.inf  # never decoded, and so without probability there
        expected = logits.log_softmax(-1)[range(len(target)), target]
        torch.testing.assert_close(torch.tensor(found.log_probs), expected, atol=1e-5, rtol=0)


def test_int8_is_a_quarter_of_the_size_and_close(folder: Path) -> None:
    run = random_run(folder)
    for name in ("float32", "int8"):
        export_run(run, "ct2", run.path / name, quantization=name)
    small, large = ((run.path / name / "model.bin").stat().st_size for name in ("int8", "float32"))
    assert small < 0.6 * large  # the table of positions stays in float32
    names = token_names(run.tokenizer.source)
    source = [[names[token] for token in windows(run)[0][0][:-1]]]
    exact, rounded = (
        ctranslate2.Translator(str(run.path / name), compute_type="float32").score_batch(source, source)[0].log_probs
        for name in ("float32", "int8")
    )
    assert 0 < max(abs(a - b) for a, b in zip(exact, rounded, strict=True)) < 0.2


@pytest.mark.parametrize("to", ["hf", "ct2"])
@pytest.mark.parametrize("windows", [{}, {"target_before": 0}, {"target_before": 1}], ids=str)
def test_the_code_of_the_card_translates_a_document_as_focat_does(to: Any, windows: Any, folder: Path) -> None:
    run = random_run(folder, windows=windows, embeddings="separate", output_bias=True, **MARIAN)
    expected = list(focat.load(run.path, "cpu").translate(DOCUMENT, context="reuse"))
    assert len(set(expected)) > 3
    assert translate_by_card(run, to)(DOCUMENT) == expected


def test_transformers_searches_as_focat_does(folder: Path) -> None:
    run = random_run(folder, beam=3, embeddings="separate", output_bias=True, **MARIAN)
    greedy, expected = (list(focat.load(run.path, "cpu").translate(DOCUMENT, context="reuse", beam=n)) for n in (1, 3))
    assert translate_by_card(run, "hf")(DOCUMENT) == expected != greedy


@pytest.mark.parametrize("to", ["hf", "ct2"])
def test_sentence_level_models_translate_without_windows(to: Any, tmp_path: Path) -> None:
    model = {"embeddings": "separate", "output_bias": True, **MARIAN}
    run = random_run(tmp_path, 1, windows={"before": 0}, data={"normalisation": {"lowercase": True}}, **model)
    assert translate_by_card(run, to)(DOCUMENT) == list(focat.load(run.path, "cpu").translate(DOCUMENT))


@pytest.mark.parametrize("to", ["hf", "ct2"])
def test_a_multilingual_model_is_told_its_language(to: Any, tmp_path: Path) -> None:
    random_marian(tmp_path / "marian", languages=True)
    run = import_model(tmp_path / "marian", tmp_path / "run", target_language="nld").run
    (ours,) = focat.load(run.path, "cpu").stream([DOCUMENT], beam=1, max_length_ratio=10)
    theirs = translate_by_card(run, to, ("beam_size=4", "beam_size=1"), ("**source", "**source, num_beams=1"))(DOCUMENT)
    ended = [(mine.text, found) for mine, found in zip(ours, theirs, strict=True) if not mine.truncated]
    assert len(ended) > 2
    assert all(mine == found for mine, found in ended)


def translate_by_card(run: Run, to: Any, *changes: tuple[str, str]) -> Any:
    """The function `translate` of the model card of a run, exported anew, with changes of its code."""
    exported = run.path / to
    export_run(run, to, exported)
    card = (exported / "README.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    scope: dict[str, Any] = {}
    for before, after in (("FOLDER", str(exported)), *changes):
        code = code.replace(before, after)
    exec(code, scope)
    return scope["translate"]


def test_the_tokenizer_of_transformers_splits_as_ours(folder: Path) -> None:
    run = random_run(folder, **MARIAN)
    export_run(run, "hf", run.path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.path / "hf")
    for text in ("Where is the cat?", "  two  spaces ", "Ω ist groß", "e\u0301 😀", "a\tb"):
        ids = tokenizer(text).input_ids
        ours = run.tokenizer.source.encode(text)
        assert tokenizer.convert_ids_to_tokens(ids) == [*map(run.tokenizer.source.piece, ours), "</s>"]
        assert tokenizer.decode(ids, skip_special_tokens=True) == run.tokenizer.source.decode(ours).strip()


def test_an_old_separator_is_not_exported_from_a_sentence_level_model_of_marian(folder: Path) -> None:
    zero = {**MARIAN, "start_embedding": "zero"}
    sizes = []
    for before in (0, 1):
        run = random_run(folder, windows={"before": before}, **zero)
        export_run(run, "hf", run.path / "hf")
        vocabulary = json.loads((run.path / "hf" / "vocab.json").read_text(encoding="utf-8"))
        assert vocabulary["</s>"] == 0
        assert vocabulary["<pad>"] == len(vocabulary) - 1
        assert ("<S>" in vocabulary) == (before > 0)
        sizes.append(len(vocabulary))
    assert sizes[1] == sizes[0] + 1


@pytest.mark.parametrize(
    ("to", "settings", "message"),
    [
        ("ct2", {"shift": 5}, "model.shift = 5: .* train without it, as in focat:s4to4-cd"),
        ("hf", {"shift": "avg-corpus"}, "model.shift = avg-corpus: "),
        ("ct2", {"segment_embeddings": "learned"}, "model.segment_embeddings = learned: "),
        ("hf", {"attention": "group"}, "model.attention = group: "),
        ("ct2", {"attention": "gated-group"}, "model.attention = gated-group: .* attends to the whole window"),
        ("ct2", {"positions": "rotary"}, "model.positions = rotary: .*model.positions=sinusoidal"),
        ("hf", {"positions": "learned"}, "model.positions = learned: .*model.sinusoids=marian"),
        ("hf", {"activation": "swiglu"}, "model.activation = swiglu: .*relu"),
        ("hf", {}, "model.sinusoids = fairseq.*Marian's class.*train with model.sinusoids=marian"),
        ("hf", {"norm": "pre"}, "model.position_offset = 0.*M2M100's class.*model.position_offset=1"),
        ("hf", {**M2M100, "output_bias": True}, "model.output_bias = true: M2M100's class"),
        ("hf", {**M2M100, "start_embedding": "zero"}, "model.start_embedding = zero: M2M100's class"),
    ],
)
def test_what_others_cannot_compute_is_refused(to: Any, settings: dict[str, Any], message: str, folder: Path) -> None:
    run = tiny_run(folder, model={"preset": "tiny", "d_model": 32, "heads": 2, **settings})
    with pytest.raises(FocatError, match=message):
        export_run(run, to, run.path / "exported")
    assert not (run.path / "exported").exists()


def test_nothing_is_overwritten_unless_asked_and_nothing_else_at_all(folder: Path) -> None:
    run = random_run(folder)
    exported, other = run.path / "exported", run.path / "other"
    export_run(run, "ct2", exported)
    before = (exported / "model.bin").stat().st_mtime_ns
    with pytest.raises(FocatError, match="exported: exists"):
        export_run(run, "ct2", exported)
    assert (exported / "model.bin").stat().st_mtime_ns == before
    export_run(run, "ct2", exported, overwrite=True)
    assert (exported / "model.bin").stat().st_mtime_ns > before
    other.mkdir()
    (other / "thesis.txt").touch()
    with pytest.raises(FocatError, match="other: holds no exported model"):
        export_run(run, "ct2", other, overwrite=True)
    for name in ("README.md", "model.safetensors", "config.json"):  # a model of somebody else
        (other / name).write_text("{}")
    with pytest.raises(FocatError, match="other: holds no exported model"):
        export_run(run, "ct2", other, overwrite=True)
    assert len(list(other.iterdir())) == 4
    (exported / ".git").mkdir()
    with pytest.raises(FocatError, match=r"exported/\.git: was not written by `focat export`"):
        export_run(run, "ct2", exported, overwrite=True)
    assert (exported / ".git").exists()
    with pytest.raises(FocatError, match="there is no folder"):
        export_run(run, "ct2", run.path / "missing" / "folder")


def test_quantization_is_for_ctranslate2_only(folder: Path) -> None:
    with pytest.raises(FocatError, match=r"quantization = int8: is for CTranslate2 only"):
        export_run(random_run(folder, **MARIAN), "hf", folder / "exported", quantization="int8")


def test_the_card_shows_figures_with_their_signatures(folder: Path) -> None:
    run = random_run(folder)
    figure = {"name": "total", "accuracy": 71.5, "low": 68.0, "high": 75.0, "right": 143, "total": 200}
    section = {"title": "deixis", "signature": "rule:current-sum|suite:deixis", "figures": [figure]}
    contrast = {"kind": "contrast", "version": "1", "rule": "current-sum", "suites": [], "sections": [section]}
    results = folder / "contrast.json"
    results.write_text(json.dumps(contrast), encoding="utf-8")
    export_run(run, "ct2", run.path / "ct2", results=[results])
    card = (run.path / "ct2" / "README.md").read_text(encoding="utf-8")
    assert r"| deixis: total | 71.5 | 68.0–75.0 | `rule:current-sum\|suite:deixis` |" in card
    results.write_text("{}", encoding="utf-8")
    with pytest.raises(FocatError, match=r"contrast.json: holds no figures"):
        export_run(run, "ct2", run.path / "other", results=[results])
    assert not (run.path / "other").exists()


def test_the_command_writes_a_folder_or_one_line(folder: Path, launcher: Launcher) -> None:
    good, shifted = random_run(folder), tiny_run(folder, model={"preset": "tiny", "shift": 3})
    exported = good.path / "exported"
    assert "README.md" in launcher.focat(folder, "export", good.path, "--to", "ct2", "-o", exported)
    names = {path.name for path in exported.iterdir()}
    assert names == {"config.json", "model.bin", "shared_vocabulary.json", "source.spm", "target.spm", "README.md"}
    said = launcher.refused(folder, "export", shifted.path, "--to", "hf", "-o", folder / "no")
    assert said.startswith("model.shift = 3: ")
    assert not (folder / "no").exists()


def test_pieces_with_the_names_of_special_tokens_are_renamed(folder: Path) -> None:
    vocabulary = random_run(folder).tokenizer.source
    pieces = {SEPARATOR + 5: "</s>", SEPARATOR + 6: "<S>"}

    class Named:
        size = vocabulary.size

        def piece(self, token: int) -> str:
            return pieces.get(token, vocabulary.piece(token))

    names = token_names(Named())  # type: ignore[arg-type]
    assert len(set(names)) == len(names) == vocabulary.size
    assert names[:4] == ["<pad>", "<B>", "</s>", "<S>"]
    assert names[SEPARATOR + 5] == f"<unused-{SEPARATOR + 5}>"


@pytest.mark.parametrize("given", [".", "..", "../here"])
def test_the_working_folder_is_not_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    run = random_run(folder)
    (run.path / "here").mkdir()
    monkeypatch.chdir(run.path / "here")
    with pytest.raises(FocatError, match="is the working folder, or above it"):
        export_run(run, "ct2", Path(given), overwrite=True)
    with pytest.raises(FocatError, match="is the working folder, or above it"):
        import_model(run.path / "missing", Path(given))

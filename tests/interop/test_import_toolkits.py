"""Marian's and CTranslate2's files: the model that transformers saved, through the files of another toolkit."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from torch import Tensor

from focat.config.schema import SearchSettings
from focat.corpus.tokenizer import ForeignVocabulary
from focat.corpus.vocabulary import END, SPECIALS
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from focat.interop.foreign_model import sinusoid_table
from focat.interop.import_model import import_model
from focat.run import Run, TrainedSystem, load_system
from focat.windows.builder import pad_windows
from tests.interop.marian_models import random_marian, save_ctranslate2, save_npz, sentences, splitter, their_ids

LANGUAGES = {"source_language": "en", "target_language": "de"}
LONGEST = 20
STEPS = "preprocess", "postprocess", "postprocess-top"  # of Marian's options


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A model, and the folder where transformers has saved it."""
    folder = tmp_path_factory.mktemp("marian") / "hf"
    return random_marian(folder), folder


def logits_of(system: TrainedSystem, marian: Any) -> tuple[Tensor, Tensor]:
    """Ours, without special tokens but the end, and those of transformers for the same tokens: (tokens, vocabulary)."""
    model, folder = marian
    ids = their_ids(system.tokenizer.target, json.loads((folder / "vocab.json").read_text()))
    sides = []
    for side in ("source", "target"):
        windows = [[*getattr(system.tokenizer, side).encode(text), END] for text in sentences(side)[:20]]
        sides.append(pad_windows(windows, [0] * len(windows)))
    labels = ids[sides[1].tokens].clamp(min=0)
    first = torch.full_like(labels[:, :1], model.config.decoder_start_token_id)
    with torch.no_grad():
        found = system.model.project(system.model(*sides))
        wanted = model(
            input_ids=ids[sides[0].tokens].clamp(min=0),
            attention_mask=(sides[0].segments >= 0).long(),
            decoder_input_ids=torch.cat((first, labels[:, :-1]), 1),
        ).logits
    real, known = sides[1].segments >= 0, [END, *range(SPECIALS, len(ids))]
    return found[real][:, known], wanted[real][:, ids[known]]


# ------------------------------------------------------------------------------------------------ Marian


def test_npz_has_the_logits_of_the_model_with_marians_own_sinusoids(marian: tuple[Any, Path], tmp_path: Path) -> None:
    model, folder = marian
    import_model(save_npz(model, folder, tmp_path / "marian"), tmp_path / "run", **LANGUAGES)
    system = load_system(tmp_path / "run", "cpu")
    tables = [side.embed_positions.weight for side in (model.model.encoder, model.model.decoder)]
    before = tables[0].clone()
    width = before.shape[1]
    try:
        with torch.no_grad():  # Marian's C++ has log(10000) / (width / 2 - 1) between its frequencies
            for table in tables:
                table.copy_(torch.from_numpy(sinusoid_table(len(before), width, width // 2 - 1, 0)))
        found, wanted = logits_of(system, marian)
    finally:
        with torch.no_grad():
            for table in tables:
                table.copy_(before)
    # twice what it is for transformers: these sinusoids are computed in float32, here and in Marian
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=0)
    assert system.settings.decoding.length_penalty == 1.0
    assert system.settings.model.sinusoids == "fairseq"


def test_norms_of_a_pre_norm_npz(marian: tuple[Any, Path], tmp_path: Path) -> None:
    """Marian calls norms in front of a block otherwise than those behind it, as the one at the top."""
    model, folder = marian
    path = save_npz(model, folder, tmp_path / "marian")
    arrays = {
        f"{name}_pre" if "_ln_" in name else name: array
        for name, array in np.load(path).items()
        if "special" not in name
    }
    options = yaml.safe_load(np.load(path)["special:model.yml"].tobytes().rstrip(b"\0"))
    options |= {f"transformer-{name}": steps for name, steps in zip(STEPS, ("n", "da", "n"), strict=True)}
    arrays["special:model.yml"] = np.frombuffer(yaml.safe_dump(options).encode(), np.int8)
    width = arrays["Wemb"].shape[1]
    for i, side in enumerate(("encoder", "decoder")):
        arrays |= {f"{side}_top_ln_{name}": np.full((1, width), i, np.float32) for name in ("scale", "bias")}
    np.savez(path, **arrays)
    import_model(path, tmp_path / "run", **LANGUAGES)
    system = load_system(tmp_path / "run", "cpu")
    assert system.settings.model.norm == "pre"
    found = system.model.state_dict()
    for side, block, theirs in (
        ("encoder", "self_attention_residual", "encoder_l1_self_Wo"),
        ("decoder", "cross_attention_residual", "decoder_l1_context_Wo"),
        ("decoder", "feedforward_residual", "decoder_l1_ffn_ffn"),
    ):
        norm = arrays[f"{theirs}_ln_scale_pre"].flatten()
        assert torch.equal(found[f"{side}.0.{block}.norm.weight"], torch.from_numpy(norm))
    assert [found[f"{side}_norm.weight"].unique().tolist() for side in ("encoder", "decoder")] == [[0], [1]]


@pytest.mark.parametrize("written", ["it's", '"it\'s"', "'it''s'", "? it's\n", '"\\x69t\\u0027s"'])
def test_pieces_are_quoted_in_many_ways(written: str, marian: tuple[Any, Path], tmp_path: Path) -> None:
    """By those of YAML: plain, in double or single quotes, or as a complex key."""
    model, folder = marian
    path = save_npz(model, folder, tmp_path / "marian")
    vocabulary = path.parent / "vocab.yml"
    *others, last = vocabulary.read_text(encoding="utf-8").splitlines(keepends=True)
    vocabulary.write_text("".join(others) + f"{written}:{last.rpartition(':')[2]}", encoding="utf-8")
    import_model(path, tmp_path / "run", **LANGUAGES)
    listed = load_system(tmp_path / "run", "cpu").tokenizer.source
    assert isinstance(listed, ForeignVocabulary)
    assert listed.listed.pieces[-1] == "it's"


def test_sentencepiece_as_vocabulary_of_marian(marian: tuple[Any, Path], tmp_path: Path) -> None:
    model, folder = marian
    path = save_npz(model, folder, tmp_path / "marian")
    processor = sentencepiece.SentencePieceProcessor(model_proto=splitter("source"))
    (path.parent / "vocab.spm").write_bytes(splitter("source"))
    (path.parent / "decoder.yml").write_text("vocabs: [vocab.spm, vocab.spm]\nbeam-size: 6\n")
    arrays = dict(np.load(path))
    rows = processor.get_piece_size()
    arrays["Wemb"], arrays["decoder_ff_logit_out_b"] = arrays["Wemb"][:rows], arrays["decoder_ff_logit_out_b"][:, :rows]
    np.savez(path, **arrays)
    import_model(path, tmp_path / "run", **LANGUAGES)
    system = load_system(tmp_path / "run", "cpu")
    assert system.tokenizer.joint
    text = sentences("source")[0]
    pieces = [system.tokenizer.source.piece(token) for token in system.tokenizer.source.encode(text)]
    assert pieces == processor.encode(text, out_type=str)
    piece = processor.piece_to_id(pieces[0])
    row = system.model.target_embedding.weight[system.tokenizer.source.encode(text)[0]]
    assert torch.equal(row.detach(), torch.from_numpy(arrays["Wemb"][piece]))
    assert (system.settings.decoding.beam, system.settings.decoding.length_penalty) == (6, 0.0)


# ------------------------------------------------------------------------------------------------ CTranslate2


@pytest.mark.parametrize(
    ("quantization", "tolerance"),
    [(None, 1e-4), ("int16", 0.1), ("float16", 0.05), ("int8", 0.5)],
)
def test_ctranslate2_has_the_logits_of_the_model(
    marian: tuple[Any, Path], tmp_path: Path, quantization: str | None, tolerance: float
) -> None:
    folder = save_ctranslate2(marian[1], tmp_path / "ct2", quantization)
    imported = import_model(folder, tmp_path / "run", **LANGUAGES)
    found, wanted = logits_of(load_system(tmp_path / "run", "cpu"), marian)
    assert (found - wanted).abs().max() < tolerance
    said = "" if quantization is None else quantization.split("_")[0]
    assert [said in note for note in imported.notes] == [True] * bool(said)


@pytest.mark.parametrize("quantization", [None, "int8"])
@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_those_of_ctranslate2(
    marian: tuple[Any, Path], tmp_path: Path, quantization: str | None, beam: int
) -> None:
    import ctranslate2

    folder = save_ctranslate2(marian[1], tmp_path / "ct2", quantization)
    import_model(folder, tmp_path / "run", **LANGUAGES)
    system = load_system(tmp_path / "run", "cpu")
    vocabulary = system.tokenizer.source
    sources = [[*vocabulary.encode(text), END] for text in sentences("source")]
    engine = Engine(system.models, SearchSettings(beam=beam, length_penalty=1.0))
    found = engine([Request(source, sentences=1, max_length=LONGEST) for source in sources])
    # with weights and arithmetic in float32, as here; int8 arithmetic is a little different
    translator = ctranslate2.Translator(str(folder), compute_type="float32")
    wanted = translator.translate_batch(
        [[*map(vocabulary.piece, source[:-1]), "</s>"] for source in sources],
        beam_size=beam,
        num_hypotheses=beam,
        return_scores=True,
        length_penalty=1.0,
        max_decoding_length=LONGEST - 1,
    )
    # Neither ends at once, but in CTranslate2 the probabilities of the other first tokens then add up to one.
    side = pad_windows(sources, [0] * len(sources))
    with torch.no_grad():
        logits = system.model.project(system.model(side, pad_windows([[END]] * len(sources), [0] * len(sources))))[:, 0]
    others = torch.log1p(-logits.softmax(-1)[:, END]).tolist()
    compared = 0
    for [best], theirs, other in zip(found, wanted, others, strict=True):
        if len(best.tokens) < LONGEST:  # what happens at the longest is another matter
            scores = [s + other / (len(h) + 1) for s, h in zip(theirs.scores, theirs.hypotheses, strict=True)]
            expected = theirs.hypotheses[scores.index(max(scores))]
            assert [system.tokenizer.target.piece(token) for token in best.tokens[:-1]] == expected
            assert best.score == pytest.approx(max(scores), abs=1e-4)
            compared += 1
    assert compared > len(found) // 3


def test_argos_is_ctranslate2_in_a_zip_file(marian: tuple[Any, Path], tmp_path: Path) -> None:
    folder = save_ctranslate2(marian[1], tmp_path / "ct2")
    package = tmp_path / "model.argosmodel"
    with zipfile.ZipFile(package, "w") as archive:
        for file in folder.iterdir():
            if file.suffix != ".spm":
                archive.write(file, f"translate-en_de/model/{file.name}")
        archive.write(folder / "source.spm", "translate-en_de/sentencepiece.model")
        archive.writestr("translate-en_de/metadata.json", '{"from_code": "en", "to_code": "de"}')
        archive.writestr("../outside.txt", "not to be written")
        archive.writestr("/tmp/outside/config.json", "nor this")
    import_model(folder, tmp_path / "from-folder", **LANGUAGES)
    imported = import_model(package, tmp_path / "run")
    assert "SentencePiece model of the source alone" in imported.notes[0]
    assert not list(tmp_path.parent.glob("outside*"))
    weights = [
        (tmp_path / run / "checkpoints/0000000/weights.safetensors").read_bytes() for run in ("from-folder", "run")
    ]
    assert weights[0] == weights[1]
    data = load_system(tmp_path / "run", "cpu").settings.data
    assert (data.source_language, data.target_language) == ("en", "de")
    whole = import_model(package, tmp_path / "whole", target_sentencepiece=folder / "target.spm")
    assert not whole.notes
    tokenizers = [Run.open(tmp_path / name).tokenizer for name in ("from-folder", "whole")]
    assert tokenizers[0].source == tokenizers[1].source
    assert tokenizers[0].target == tokenizers[1].target

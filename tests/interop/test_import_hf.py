"""Hugging Face's Marian models: the same ids, the same logits, the same translations as in transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import END, SPECIALS
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from focat.interop.import_model import import_model
from focat.run import load_system
from focat.windows.builder import pad_windows
from tests.interop.marian_models import LANGUAGES, random_marian, sentences, their_ids, transformers

LONGEST = 20


class Both:
    """A model of transformers, and the run that was imported from it."""

    def __init__(self, folder: Path, target_language: str | None = None, **kind: bool) -> None:
        self.theirs = random_marian(folder / "hf", **kind)
        self.folder = folder / "hf"
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(self.folder)
        import_model(self.folder, folder / "run", target_language=target_language)
        self.ours = load_system(folder / "run", "cpu")
        self.source_ids, self.target_ids = (
            their_ids(getattr(self.ours.tokenizer, side), json.loads((self.folder / name).read_text()))
            for side, name in (("source", "vocab.json"), ("target", self._target_vocabulary()))
        )

    def _target_vocabulary(self) -> str:
        return "target_vocab.json" if (self.folder / "target_vocab.json").exists() else "vocab.json"

    def allowed_tokens(self, _: int, tokens: Tensor) -> list[int]:
        """No padding, no end at the start, and nothing but an end at the longest, as in focat."""
        words = self.target_ids[SPECIALS:].tolist()
        return [0] if len(tokens) == LONGEST else words if len(tokens) == 1 else [0, *words]

    def encode_here(self, texts: list[str]) -> list[list[int]]:
        return [[*self.ours.tokenizer.source.encode(text), END] for text in texts]


@pytest.fixture(scope="module", params=["shared", "separate", "languages", "pre-norm", "trained-start"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    kind: dict[str, Any] = {}
    if request.param != "shared":
        kind[request.param.replace("-", "_")] = True
    language = "nld" if request.param == "languages" else None
    return Both(tmp_path_factory.mktemp("import"), language, **kind)


def test_sentences_have_the_ids_of_transformers(both: Both) -> None:
    prefix = LANGUAGES[1] if both.ours.tokenizer.source.listed.prefix else ""
    for text in sentences("source"):
        wanted = both.tokenizer(prefix + text)["input_ids"]
        assert both.source_ids[both.encode_here([text])[0]].tolist() == wanted
    for text in sentences("target"):
        found = [*both.ours.tokenizer.target.encode(text), END]
        assert both.target_ids[found].tolist() == both.tokenizer(text_target=text)["input_ids"]


def test_logits_are_those_of_transformers(both: Both) -> None:
    model, tokenizer = both.ours.model, both.ours.tokenizer
    for start in range(0, len(sentences("source")), 20):
        texts = (sentences(side)[start : start + 20] for side in ("source", "target"))
        sides = [
            pad_windows([[*vocabulary.encode(text), END] for text in of_side], [0] * len(of_side))
            for of_side, vocabulary in zip(texts, (tokenizer.source, tokenizer.target), strict=True)
        ]
        with torch.no_grad():
            found = model.project(model(*sides))
            real = sides[1].segments >= 0
            labels = both.target_ids[sides[1].tokens].clamp(min=0)
            first = torch.full_like(labels[:, :1], both.theirs.config.decoder_start_token_id)
            wanted = both.theirs(
                input_ids=both.source_ids[sides[0].tokens].clamp(min=0),
                attention_mask=(sides[0].segments >= 0).long(),
                decoder_input_ids=torch.cat((first, labels[:, :-1]), 1),
            ).logits
        known = both.target_ids >= 0
        torch.testing.assert_close(found[real][:, known], wanted[real][:, both.target_ids[known]], atol=1e-5, rtol=0)
        # what transformers does not have is as good as impossible, so that probabilities are the same
        found_total, wanted_total = (logits[real].logsumexp(-1) for logits in (found, wanted))
        torch.testing.assert_close(found_total, wanted_total, atol=1e-5, rtol=0)


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_those_of_transformers(both: Both, beam: int) -> None:
    sources = both.encode_here(sentences("source"))
    engine = Engine([both.ours.model], SearchSettings(beam=beam, length_penalty=1.0))
    found = [
        both.target_ids[best.tokens].tolist()
        for [best] in engine([Request(source, sentences=1, max_length=LONGEST) for source in sources])
    ]
    padded = pad_windows(sources, [0] * len(sources))
    wanted = []
    for rows in torch.arange(len(sources)).split(20):
        generated = both.theirs.generate(
            input_ids=both.source_ids[padded.tokens[rows]].clamp(min=0),
            attention_mask=(padded.segments[rows] >= 0).long(),
            num_beams=beam,
            length_penalty=1.0,
            early_stopping=beam > 1,
            max_new_tokens=LONGEST,
            prefix_allowed_tokens_fn=both.allowed_tokens,
        )
        wanted += [_until_end(tokens) for tokens in generated[:, 1:].tolist()]
    assert len(set(map(len, found))) > 1 or both.theirs.config.model_type == "m2m_100"
    assert len(set(map(tuple, found))) > 3
    assert found == wanted


def _until_end(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(0) + 1]

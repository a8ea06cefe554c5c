"""What a glossary costs: time, and BLEU, of a system that was trained on the generated corpus.

    OMP_NUM_THREADS=1 python -m benchmarks.glossary_speed RUN        # RUN: of `focat demo`

Three glossaries. `known` has the things of the corpus with their translation. `other` has its ambiguous terms with the
second of their translations, of which the system would choose one by context. `unseen` has compounds that are not in
the corpus, spelt in pieces. References are made to say what the glossary says, by replacing words.

Sentences with terms are taken from as many documents as needed. They are translated as sentences of their documents,
together with all others (reuse, regenerate), and alone (none), so that every sentence of the batch has a term. Times
are CPU seconds of one process; glossary and none take turns, and the best counts.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import sacrebleu
import torch

import focat
from focat.corpus.generated import generate
from focat.corpus.generated.lexicon import TERMS, THINGS

UNSEEN = {
    "table": ("Tisch", "Schreibtisch"),
    "lamp": ("Lampe", "Leuchte"),
    "bag": ("Tasche", "Handtasche"),
    "book": ("Buch", "Wörterbuch"),
    "suitcase": ("Koffer", "Reisekoffer"),
    "boat": ("Boot", "Schlauchboot"),
    "camera": ("Kamera", "Digitalkamera"),
    "mirror": ("Spiegel", "Wandspiegel"),
}
# source → what the reference may say, and what it says with the glossary
GLOSSARIES: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "known": {thing.english: (thing.german, thing.german[0]) for things in THINGS.values() for thing in things},
    "other": {term.english: (term.german, term.german[1]) for terms in TERMS.values() for term in terms},
    "unseen": {english: ((usual,), unseen) for english, (usual, unseen) in UNSEEN.items()},
}
SEED = 4242


@dataclass(frozen=True)
class Figures:
    """What one glossary did in one kind of context."""

    glossary: str
    context: str
    sentences: int
    with_terms: int
    terms: int
    contained: int  # of the terms, in the translations
    repeated: int  # sentences that have a term more often than required
    contained_without: int  # of the terms, without the glossary
    bleu: float  # of the sentences with terms
    bleu_without: float
    seconds: float
    seconds_without: float

    @property
    def ratio(self) -> float:
        """How many times longer it takes."""
        return self.seconds / self.seconds_without


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--sentences", type=int, default=1000, help="sentences with terms")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--glossaries", default=",".join(GLOSSARIES))
    parser.add_argument("--contexts", default="reuse,regenerate,none")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = focat.load(options.run, "cpu")
    print(f"{'glossary':9}{'context':12}{'sentences':>10}{'with terms':>11}{'contained':>17}{'without':>9}", end="")
    print(f"{'repeated':>9}{'BLEU':>7}{'without':>8}{'seconds':>9}{'without':>8}{'ratio':>7}")
    found = []
    for name in options.glossaries.split(","):
        for context in options.contexts.split(","):
            figures = _measure(model, name, context, options.sentences, options.rounds)
            found.append(figures)
            share = f"{figures.contained} of {figures.terms}"
            print(f"{name:9}{context:12}{figures.sentences:10}{figures.with_terms:11}{share:>17}", end="")
            print(
                f"{figures.contained_without:9}{figures.repeated:9}{figures.bleu:7.1f}{figures.bleu_without:8.1f}",
                end="",
            )
            print(f"{figures.seconds:9.2f}{figures.seconds_without:8.2f}{figures.ratio:7.2f}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(figures) for figures in found], indent=1), encoding="utf-8")


def _measure(model: focat.Model, name: str, context: str, count: int, rounds: int) -> Figures:
    entries = GLOSSARIES[name]
    documents, references = _documents(entries, count, alone=context == "none")
    glossary = {source: target for source, (_, target) in entries.items()}
    plain, constrained = model.translator(context=context), model.translator(context=context, glossary=glossary)
    seconds = {False: float("inf"), True: float("inf")}
    texts: dict[bool, list[str]] = {}
    for _ in range(rounds):
        for terms, translator in ((False, plain), (True, constrained)):
            start = time.process_time()
            texts[terms] = [t.text for document in translator.translate(documents) for t in document]
            seconds[terms] = min(seconds[terms], time.process_time() - start)
    sources = [sentence for document in documents for sentence in document]
    required = [_terms(sentence, glossary) for sentence in sources]
    chosen = [i for i, targets in enumerate(required) if targets]
    times = {terms: [[_times(t, texts[terms][i]) for t in required[i]] for i in chosen] for terms in texts}
    needed = [[required[i].count(t) for t in required[i]] for i in chosen]
    bleu, bleu_without = (
        sacrebleu.corpus_bleu([texts[terms][i] for i in chosen], [[references[i] for i in chosen]]).score
        for terms in (True, False)
    )
    return Figures(
        *(name, context, len(sources), len(chosen), sum(map(len, needed))),
        contained=_met(times[True], needed),
        repeated=sum(any(a > b for a, b in zip(t, n, strict=True)) for t, n in zip(times[True], needed, strict=True)),
        contained_without=_met(times[False], needed),
        bleu=bleu,
        bleu_without=bleu_without,
        seconds=seconds[True],
        seconds_without=seconds[False],
    )


def _documents(
    entries: dict[str, tuple[tuple[str, ...], str]], count: int, alone: bool
) -> tuple[list[list[str]], list[str]]:
    """Documents with so many sentences that have terms, or those sentences alone, and the references of all."""
    documents: list[list[str]] = []
    references: list[str] = []
    missing = count
    for document in generate(count * 10, SEED):
        documents.append([])
        for source, target in zip(document.source, document.target, strict=True):
            terms = [word for word in re.findall(r"\w+", source) if word in entries]
            if alone and not terms:
                continue
            for usual, wanted in (entries[term] for term in terms):
                target = re.sub(rf"\b(?:{'|'.join(usual)})\b", wanted, target)
            documents[-1].append(source)
            references.append(target)
            missing -= bool(terms)
            if missing == 0:
                return documents, references
    raise SystemExit(f"{missing} sentences with terms are missing")


def _terms(sentence: str, glossary: dict[str, str]) -> list[str]:
    return [glossary[word] for word in re.findall(r"\w+", sentence) if word in glossary]


def _times(target: str, text: str) -> int:
    return len(re.findall(rf"(?<!\w){target}(?!\w)", text))


def _met(times: Sequence[Sequence[int]], needed: Sequence[Sequence[int]]) -> int:
    return sum(a >= b for t, n in zip(times, needed, strict=True) for a, b in zip(t, n, strict=True))


if __name__ == "__main__":
    main()

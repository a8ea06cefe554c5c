"""Context through each API, on a model that has learned to use it: pronouns that only earlier sentences decide.

It needs the focused system of the demo:

    FOCAT_DEMO_RUN=demo/runs/s4to4-shift-cd-seed1 pytest -s tests/serving/test_context.py
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import deepl
import pytest

from focat.corpus.generated import contrapro_suite, voita_suite
from tests.serving.running import RunningServer, running

RUN = os.environ.get("FOCAT_DEMO_RUN")
pytestmark = pytest.mark.skipif(RUN is None, reason="FOCAT_DEMO_RUN names no run of the demo")


@dataclass(frozen=True)
class Question:
    """A sentence whose translation the sentences before it decide."""

    name: str
    context: list[str]
    sentence: str
    right: str
    wrong: list[str]


def questions() -> list[Question]:
    """Pronouns one to three sentences after their noun, and forms of address."""
    entries, source, _ = contrapro_suite(80, 1000)
    each = len(source) // len(entries)
    pronouns = [
        Question(
            f"pronoun {i}",
            [line for line in source[i * each : i * each + 3] if line.strip()],
            entry["src segment"],
            entry["ref segment"],
            [error["contrastive"] for error in entry["errors"]],
        )
        for i, entry in enumerate(entries)
        if entry["ante distance"] > 0
    ]
    address = []
    for i, instance in enumerate(voita_suite("deixis", 80, 1000)):
        *context, sentence = instance["src"].split(" _eos ")
        candidates = [text.split(" _eos ")[-1] for text in instance["dst"]]
        right = candidates.pop(instance["true_ind"])
        if any(before.startswith("Listen, ") for before in context):  # else only the translation of the context decides
            address.append(Question(f"address {i}", context, sentence, right, candidates))
    return pronouns + address


QUESTIONS = questions()


@pytest.fixture(scope="module")
def demo() -> Iterator[RunningServer]:
    with running(Path(RUN or "")) as server:
        yield server


def libretranslate(server: RunningServer, **fields: object) -> str | list[str]:
    answer = server.post("/translate", {"source": "en", "target": "de", **fields}).json()["translatedText"]
    assert isinstance(answer, str | list)
    return answer


def as_list(server: RunningServer, question: Question) -> str:
    return libretranslate(server, q=[*question.context, question.sentence])[-1]


def with_context(server: RunningServer, question: Question) -> str:
    before = " ".join(question.context)
    return str(libretranslate(server, q=question.sentence, context=before, session=f"context {question.name}"))


def one_by_one(server: RunningServer, question: Question) -> str:
    answers = [libretranslate(server, q=q, session=question.name) for q in (*question.context, question.sentence)]
    return str(answers[-1])


def deepl_list(server: RunningServer, question: Question) -> str:
    client = deepl.DeepLClient(f"list {question.name}", server_url=server.url)
    texts = [*question.context, question.sentence]
    return client.translate_text(texts, source_lang="EN", target_lang="DE")[-1].text


def deepl_context(server: RunningServer, question: Question) -> str:
    client = deepl.DeepLClient(f"context {question.name}", server_url=server.url)
    before = " ".join(question.context)
    return client.translate_text(question.sentence, source_lang="EN", target_lang="DE", context=before).text


def native(server: RunningServer, question: Question) -> str:
    return server.translated(sentences=[*question.context, question.sentence])[-1]


def native_context(server: RunningServer, question: Question) -> str:
    before = [{"source": sentence} for sentence in question.context]
    return server.translated(sentences=[question.sentence], context=before)[-1]


def accuracy(answers: list[str]) -> float:
    """Of the answers that are one of the candidates, how many are the right one; nearly all must be one of them."""
    pairs = zip(answers, QUESTIONS, strict=True)
    known = [answer == question.right for answer, question in pairs if answer in (question.right, *question.wrong)]
    assert len(known) > 0.8 * len(QUESTIONS)
    return sum(known) / len(known)


@pytest.mark.parametrize(
    "ask",
    [as_list, with_context, one_by_one, deepl_list, deepl_context, native, native_context],
    ids=lambda f: f.__name__,
)
def test_context_arrives(demo: RunningServer, ask: Callable[[RunningServer, Question], str]) -> None:
    with ThreadPoolExecutor(50) as pool:  # interleaved
        found = accuracy(list(pool.map(lambda question: ask(demo, question), QUESTIONS)))
    print(f"{ask.__name__}: {found:.1%}")
    assert found > 0.97


def test_other_clients_are_no_context(demo: RunningServer) -> None:
    """Each sentence from a client of its own: at chance, between one in three and one in two."""

    def ask(question: Question) -> str:
        for i, sentence in enumerate(question.context):
            libretranslate(demo, q=sentence, session=f"{i} before {question.name}")
        return str(libretranslate(demo, q=question.sentence, session=f"not before {question.name}"))

    with ThreadPoolExecutor(50) as pool:
        found = accuracy(list(pool.map(ask, QUESTIONS)))
    print(f"different clients: {found:.1%}")
    assert found < 0.6

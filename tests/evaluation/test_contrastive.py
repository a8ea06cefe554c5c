"""Contrastive evaluation: scores against a slow reference, and the suites' own rules for ties and windows."""

import pytest
import torch

from focat.config import Settings
from focat.config.schema import WindowSettings
from focat.corpus.generated import contrapro_suite, voita_suite
from focat.corpus.prepare import prepare
from focat.corpus.store import Store
from focat.corpus.vocabulary import END, SEPARATOR
from focat.evaluation.contrastive import accuracy_by_distance, contrast, is_right, window_of
from focat.evaluation.scoring import score_texts, window_score
from focat.evaluation.suites import Instance, contrapro_instances, voita_instances
from focat.progress import QUIET
from focat.training.run import Run
from focat.windows.batch import Side
from focat.windows.segments import segments_of
from focat.windows.texts import WindowText, batch_of_texts


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """An untrained model and its tokenizer."""
    folder = tmp_path_factory.mktemp("contrast")
    settings = Settings.model_validate(
        {
            "data": {
                "store": str(folder / "store"),
                "train": [{"format": "generated", "documents": 60}],
                "tokenizer": {"vocabulary": 330},
            },
            "model": {"preset": "tiny", "width": 16, "feedforward": 32, "heads": 2, "shift": 5},
            "training": {"run": str(folder / "run")},
        }
    )
    prepare(settings.data, QUIET)
    torch.manual_seed(1)
    run = Run.create(settings, Store(settings.data.store))
    return run.build_model().eval(), run.tokenizer


def instance(**changes):
    given = {
        "source": ["a", "b", "c"],
        "target": ["A", "B"],
        "candidates": ["C", "D"],
        "right": 0,
        "distance": 1,
        "strict": False,
    }
    return Instance(**{**given, **changes})


def test_rules_by_hand():
    """`a <S> b c <E>`: the current sentence is b c <E>."""
    tokens = torch.tensor([[9, SEPARATOR, 8, 7, END, 0]])
    target = Side(tokens, segments_of(tokens), torch.tensor([1]))
    scores = torch.tensor([[-1.0, -2.0, -3.0, -4.0, -5.0, 0.0]])
    assert window_score(scores, target, "current-sum").tolist() == [-12.0]
    assert window_score(scores, target, "current-mean").tolist() == [-4.0]
    assert window_score(scores, target, "window-mean").tolist() == [-3.0]


def test_scores_equal_a_loop_over_tokens(system):
    model, tokenizer = system
    windows = [
        WindowText(["Here is the lamp.", "It is new."], ["Hier ist die Lampe.", "Sie ist neu."]),
        WindowText(["It is new."], ["Er ist neu."]),
        WindowText(
            ["Do you have time?", "I am here.", "It is new."], ["Hast du Zeit?", "Ich bin hier.", "Es ist neu."]
        ),
    ]
    found = score_texts(model, tokenizer, windows, "current-sum", batch_windows=2)
    for window, score in zip(windows, found.tolist(), strict=True):
        batch = batch_of_texts(tokenizer, [window])
        with torch.no_grad():
            logits = model.project(model(batch.source, batch.target))[0].double()
        total = 0.0
        for t, token in enumerate(batch.target.tokens[0].tolist()):
            if batch.target.segments[0, t] == len(window.target) - 1:
                total += float(logits[t].log_softmax(-1)[token])
        assert score == pytest.approx(total, abs=1e-4)


def test_ties_go_as_each_suite_prescribes():
    assert is_right([-1.0, -1.0], instance())  # Voita: the first of equals
    assert not is_right([-1.0, -1.0], instance(right=1))
    assert not is_right([-1.0, -1.0], instance(strict=True))  # ContraPro: strictly better
    assert is_right([-1.0, -1.1], instance(strict=True))


def test_windows_have_what_the_model_was_trained_on():
    assert window_of(instance(), "C", WindowSettings(before=3)) == WindowText(["a", "b", "c"], ["A", "B", "C"])
    assert window_of(instance(), "C", WindowSettings(before=1)) == WindowText(["b", "c"], ["B", "C"])
    assert window_of(instance(), "C", WindowSettings(before=0)) == WindowText(["c"], ["C"])
    source_only = WindowSettings(before=2, target_before=0)
    assert window_of(instance(), "C", source_only) == WindowText(["a", "b", "c"], ["C"])


def test_published_layouts():
    voita = voita_instances(
        [
            {
                "src": "a _eos b _eos c _eos d",
                "dst": ["A _eos B _eos C _eos D", "A _eos B _eos C _eos E"],
                "true_ind": 1,
                "ctx_dist": 2,
            }
        ]
    )
    assert voita == [Instance(["a", "b", "c", "d"], ["A", "B", "C"], ["D", "E"], 1, 2, strict=False)]
    entries = [
        {"src segment": "x", "ref segment": "X", "errors": [{"contrastive": "Y"}], "ante distance": 1},
        {"src segment": "z", "ref segment": "Z", "errors": [{"contrastive": "W"}], "ante distance": None},
    ]
    first, second = contrapro_instances(entries, ["", "p", "", "p", "q", "r", "q", "r"], ["P", "P", "R", "R"])
    assert first == Instance(["p", "x"], ["P"], ["X", "Y"], 0, 1, strict=True)  # blank: the document begins
    assert second == Instance(["q", "r", "z"], ["R"], ["Z", "W"], 0, None, strict=True)


def test_without_context_it_is_chance_exactly(system):
    """Instances come in groups that share the sentence and differ in what is right: one sentence cannot tell."""
    model, tokenizer = system
    alone = WindowSettings(before=0)
    deixis = voita_instances(voita_suite("deixis", 40, 5))
    right = contrast(model, tokenizer, deixis, alone)
    assert sum(right) * 2 == len(right)
    pronouns = [i for i in contrapro_instances(*contrapro_suite(48, 5)) if i.distance != 0]
    answers = contrast(model, tokenizer, pronouns, alone)
    assert sum(answers) * 3 == len(answers)
    assert set(accuracy_by_distance(pronouns, answers).values()) == {1 / 3}

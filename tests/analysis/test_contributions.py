"""To drop a context sentence is to score a window that was built without it."""

import numpy as np
import pytest
import torch

from focat.analysis.contributions import (
    Contributions,
    context_contributions,
    drop_sentence,
    drop_tokens,
    droppable,
    tokens_of,
)
from focat.analysis.corpora import AnalysedSystem
from focat.analysis.phenomena import SuiteInstance, context_effects
from focat.config.schema import WindowSettings
from focat.corpus.generated import contrapro_suite
from focat.corpus.vocabulary import END, SEPARATOR
from focat.evaluation.scoring import score_texts
from focat.evaluation.suites import contrapro_instances
from focat.progress import NULL_PROGRESS
from focat.run import load_system
from focat.windows.batch import Batch
from focat.windows.texts import WindowText
from tests.analysis.corpora import VARIANTS, split, system
from tests.model.examples import side


def joined(sentences):
    tokens = [token for sentence in sentences for token in [*sentence, SEPARATOR]]
    return [*tokens[:-1], END]


def slow_score(model, source, source_current, target, target_current):
    """Log-probability of the current sentence of a window given as lists of sentences."""
    sides = side(joined(source), current=[source_current]), side(joined(target), current=[target_current])
    with torch.no_grad():
        scores = model.project(model(*sides))[0].log_softmax(-1)
    labels, segments = sides[1].tokens[0].tolist(), sides[1].segments[0].tolist()
    return sum(float(scores[t, label]) for t, label in enumerate(labels) if segments[t] == target_current)


def slow_windows(corpus, windows):
    """Of each sentence: its window on both sides, as lists of (distance, tokens); oldest first."""
    for document in range(len(corpus.documents) - 1):
        first, end = int(corpus.documents[document]), int(corpus.documents[document + 1])
        for current in range(first, end):
            window = []
            reaches = (windows.before, windows.after), windows.target
            for sentences, (before, after) in zip((corpus.source, corpus.target), reaches, strict=True):
                places = range(max(first, current - before), min(end, current + after + 1))
                window.append([(current - i, sentences[i].tolist()) for i in places])
            yield current, *window


def score_without(model, source, target, from_source, from_target):
    kept = [[pair for pair in source if pair[0] not in from_source], [p for p in target if p[0] not in from_target]]
    currents = [[distance for distance, _ in one].index(0) for one in kept]
    texts = [[tokens for _, tokens in one] for one in kept]
    return slow_score(model, texts[0], currents[0], texts[1], currents[1])


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_equals_windows_built_by_hand(variant):
    corpus, tested = split(5, 1), system(**variant)
    found = context_contributions(tested, corpus, ["both", "source", "target"], NULL_PROGRESS)
    place = {sentence: i for i, sentence in enumerate(found.sentences.tolist())}
    dropped_at_all = 0
    for current, source, target in slow_windows(corpus, tested.windows):
        row = place[current]
        assert found.full[row] == pytest.approx(score_without(tested.model, source, target, (), ()), abs=1e-4)
        for (sides, what), part in found.without.items():
            gone = {d for d, _ in source if d} if what == "all" else {what}
            there = {"source": {d for d, _ in source}, "target": {d for d, _ in target}}
            there["both"] = there["source"] | there["target"]
            if not gone & there[sides]:
                assert np.isnan(part[row])
                continue
            dropped_at_all += 1
            from_source, from_target = ((), gone) if sides == "target" else (gone, () if sides == "source" else gone)
            expected = score_without(tested.model, source, target, from_source, from_target)
            assert part[row] == pytest.approx(expected, abs=1e-4), (current, sides, what)
    assert dropped_at_all > 10


def test_without_by_hand():
    """`a <S> b <S> c <E>`: without b; without all; and a sentence behind the current one, which leaves its <E>."""
    window = side([7, SEPARATOR, 8, 9, SEPARATOR, 10, END], [11, END])
    rest = drop_tokens(window, tokens_of(window, 1))
    assert rest.tokens.tolist() == [[7, SEPARATOR, 10, END], [11, END, 0, 0]]
    assert rest.segments.tolist() == [[0, 0, 1, 1], [0, 0, -1, -1]]
    assert rest.current.tolist() == [1, 0]
    assert drop_tokens(window, tokens_of(window, "all")).tokens.tolist() == [[10, END], [11, END]]
    middle = side([7, SEPARATOR, 8, SEPARATOR, 9, END], current=[1])
    behind = drop_tokens(middle, tokens_of(middle, -1))
    assert behind.tokens.tolist() == [[7, SEPARATOR, 8, END]]
    assert behind.current.tolist() == [1]
    before = drop_tokens(middle, tokens_of(middle, 1))
    assert before.tokens.tolist() == [[8, SEPARATOR, 9, END]]
    assert before.current.tolist() == [0]


def test_only_windows_that_have_the_sentence():
    source = side([7, SEPARATOR, 8, END], [9, END])
    batch = Batch(source, source, torch.arange(2))
    rows, rest = drop_sentence(batch, 1, "both")
    assert rows.tolist() == [0]
    assert rest.source.tokens.tolist() == [[8, END]]
    assert drop_sentence(batch, 2, "both") is None


def test_figures_by_hand():
    found = context_contributions(system(), split(3, 2), ["both"], NULL_PROGRESS)
    moved = found.full - found.without["both", 1]
    there = ~np.isnan(moved)
    (first, *_) = found.results(trials=200)
    assert first.windows == there.sum() == 3
    assert first.per_sentence == pytest.approx(moved[there].mean())
    assert first.per_token == pytest.approx(moved[there].sum() / found.tokens[there].sum())
    assert found.scores()["context.both.1"].item_values == pytest.approx(
        (moved / found.tokens)[there][np.argsort(found.sentences[there])]
    )


def test_shares_by_hand():
    """Of five windows one has nothing to drop; with it one of the others is better, two are worse, one is the same."""
    full, without = np.array([-2.0, -3.0, -4.0, -5.0, -6.0]), np.array([-2.5, -2.0, -4.0, np.nan, -5.0])
    found = Contributions(np.arange(5), np.array([1.0, 2.0, 1.0, 9.0, 4.0]), full, {("both", 1): without})
    (row,) = found.results(trials=200)
    assert (row.windows, row.better_with_it) == (4, 0.25)
    assert row.per_sentence == pytest.approx((0.5 - 1 + 0 - 1) / 4)
    assert row.per_token == pytest.approx((0.5 - 1 + 0 - 1) / 8)


def test_what_can_be_dropped():
    assert droppable(WindowSettings(before=2), "both") == [1, 2, "all"]
    assert droppable(WindowSettings(before=1), "source") == [1]
    assert droppable(WindowSettings(before=0), "both") == []
    assert droppable(WindowSettings(before=3, target_before=0), "target") == []
    assert droppable(WindowSettings(before=1, after=1), "both") == [1, -1, "all"]


def test_phenomena_equal_windows_built_by_hand(workshop):
    """Margins of a suite with and without each sentence, from scores of whole windows."""
    opened = load_system(workshop / "focused", "cpu")
    tested = AnalysedSystem("focused", opened.model, opened.settings, opened.tokenizer)
    entries, *context = contrapro_suite(6, 1000)
    instances = contrapro_instances(entries, tuple(context))
    of_suite = [SuiteInstance("pronouns", instance) for instance in instances]
    found = context_effects(tested, of_suite, ["both", "target"], "current-sum", NULL_PROGRESS)
    assert set(found.without) == {
        ("both", 1),
        ("both", 2),
        ("both", "all"),
        ("target", 1),
        ("target", 2),
        ("target", "all"),
    }

    def margin(instance, from_source, from_target):
        source, target = [
            [(len(all_of) - i, sentence) for i, sentence in enumerate(all_of)]
            for all_of in (list(instance.source[:-1]), list(instance.target))
        ]
        before = [sentence for d, sentence in source if d <= 2 and d not in from_source]
        translated = [sentence for d, sentence in target if d <= 2 and d not in from_target]
        windows = [
            WindowText([*before, instance.source[-1]], [*translated, candidate]) for candidate in instance.candidates
        ]
        scores = score_texts(tested.model, tested.tokenizer, windows).by("current-sum").tolist()
        return scores.pop(instance.right) - max(scores)

    for (sides, what), part in found.without.items():
        gone = {1, 2} if what == "all" else {what}
        for item, value in zip(part.items.tolist(), part.margins.tolist(), strict=True):
            instance = instances[item]
            assert found.full.margins[item] == pytest.approx(margin(instance, (), ()), abs=1e-3)
            assert value == pytest.approx(margin(instance, () if sides == "target" else gone, gone), abs=1e-3)
    row = next(row for row in found.results() if row.dropped == 1 and row.sides == "both" and row.distance is None)
    part = found.without["both", 1]
    assert row.instances == len(part.items)
    assert row.accuracy == pytest.approx(100 * part.correct.mean())
    assert row.margin_change == pytest.approx((part.margins - found.full.margins[part.items]).mean())

"""Scores of many corpora at once equal sacrebleu's, one at a time; lines are joined as they should be."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from focat.errors import FocatError
from focat.evaluation import line_statistics as module
from focat.evaluation.line_statistics import MetricRequest, line_statistics, shared_line_statistics
from focat.evaluation.metrics import check_tokenize, lines_of, measure, metric_score, parse_metrics

REFERENCES = ["Wo ist die Katze?", "Sie schläft auf dem alten Sofa.", "", "Guten Abend, Frau Maier!", "Ja."]
HYPOTHESES = ["Wo ist die Katze?", "Es schläft auf dem alten Bett.", "zu viel", "Guten abend frau Maier", ""]
SCORERS = {
    "BLEU": BLEU,
    "chrF": CHRF,
    "chrF++": lambda **how: CHRF(word_order=2, **how),
    "TER": lambda lowercase=False: TER(),  # not case-sensitive by default
}


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("metric", SCORERS)
def test_score_and_signature_are_sacrebleus(metric, lowercase):
    scorer = SCORERS[metric](lowercase=lowercase)
    expected = scorer.corpus_score(HYPOTHESES, [REFERENCES]).score
    score = measure(metric, "sentence", HYPOTHESES, REFERENCES, lowercase)
    assert score.value == pytest.approx(expected, rel=1e-12)
    assert score.signature == str(scorer.get_signature())
    assert 0 < score.value < 200


@pytest.mark.parametrize("metric", SCORERS)
def test_formulas_equal_sacrebleu_on_any_sums(metric):
    """Empty corpora, no matches, no n-grams of high order: all that a resample can come to."""
    scorer = SCORERS[metric]()
    score = measure(metric, "sentence", HYPOTHESES, REFERENCES)
    items = score.statistics
    times = np.array([[(i >> k) & 1 for k in range(len(items))] for i in range(2 ** len(items))])
    sums = times @ items  # (subsets, statistics)
    expected = [scorer._compute_score_from_stats([float(n) for n in row]).score for row in sums]
    assert score.formula(sums) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert len(set(expected)) > 8


@pytest.fixture
def three_processes(monkeypatch):
    monkeypatch.setattr(module, "cores", lambda: 3)
    with shared_line_statistics(1600) as statistics_of:
        monkeypatch.setattr(module, "line_statistics", None)  # nothing is computed in this process
        yield statistics_of


@pytest.mark.parametrize("metric", SCORERS)
def test_several_processes_compute_the_same(metric, three_processes):
    for count in (len(HYPOTHESES), 2, 1):
        for lowercase in (False, True):
            request = MetricRequest(metric, HYPOTHESES[:count], REFERENCES[:count], lowercase)
            assert three_processes(request) == line_statistics(request)
    how = "Wo ist\u2028sie?", ["Wo\nist \ud800 sie?"]  # what ends a line elsewhere, and what is no text
    request = MetricRequest(metric, [how[0]], how[1])
    assert three_processes(request) == line_statistics(request)


def test_the_tokenizer_is_asked_for_in_every_process(three_processes):
    request = MetricRequest("BLEU", ["ab cd"] * 4, ["ab cd"] * 4, tokenize="char")
    statistics, signature = three_processes(request)
    assert "tok:char" in signature
    assert statistics[0][:2] == [4, 4]  # characters


def test_a_process_that_ends_is_one_line(monkeypatch):
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr(module.sys, "executable", "/bin/true")
    with (
        shared_line_statistics(5000) as statistics_of,
        pytest.raises(FocatError, match="TER: a process that computes it has ended"),
    ):
        statistics_of(MetricRequest("TER", HYPOTHESES, REFERENCES))


def test_processes_end_with_the_evaluation(monkeypatch):
    started = []
    start = module._worker
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr(module, "_worker", lambda: started.append(start()) or started[-1])
    with pytest.raises(KeyboardInterrupt), shared_line_statistics(1000):
        raise KeyboardInterrupt
    assert len(started) == 2
    assert all(worker.returncode is not None for worker in started)
    with shared_line_statistics(999) as statistics_of:  # too few for a second one
        assert statistics_of is line_statistics


def test_bleu_by_hand():
    """`a b c d e` for `a b c d f`: precisions 4/5, 3/4, 2/3, 1/2, no brevity penalty."""
    score = measure("BLEU", "sentence", ["a b c d e"], ["a b c d f"])
    assert score.value == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


DOCUMENTS = [["a", "b", "c"], [], ["d", "", "e", "f", "g"]]


def test_lines():
    assert lines_of(DOCUMENTS, "sentence") == ["a", "b", "c", "d", "", "e", "f", "g"]
    assert lines_of(DOCUMENTS, "document") == ["a b c", "d e f g"]
    assert lines_of(DOCUMENTS, "fragment", 2) == ["a b", "c", "d", "e f", "g"]


def test_names_and_directions():
    figures = [measure("BLEU", level, ["a"], ["a"], fragment=4) for level in ("sentence", "fragment", "document")]
    assert [figure.name for figure in figures] == ["BLEU", "f-BLEU", "d-BLEU"]
    assert figures[1].signature.endswith("|sentences:4")
    scores = [metric_score(metric, "sentence", "", np.ones((2, 10))) for metric in ("BLEU", "TER", "COMET")]
    assert [score.higher_is_better for score in scores] == [True, False, True]
    assert [score.digits for score in scores] == [2, 2, 4]
    assert [score.kind for score in scores] == ["corpus", "corpus", "mean"]


def test_ter_is_not_case_sensitive():
    """As by default in sacrebleu; the signature says so."""
    score = measure("TER", "sentence", ["Guten Abend Frau Maier"], ["guten abend frau Maier"])
    assert score.value == 0
    assert "case:lc" in score.signature


def test_choice_of_metrics():
    assert parse_metrics("TER, bleu,chrF++,bleu") == ["TER", "BLEU", "chrF++"]
    for text in ("bleu,blue", " , "):
        with pytest.raises(FocatError, match="choose from bleu, chrf"):
            parse_metrics(text)


def test_tokenizers_are_checked():
    check_tokenize("char")
    with pytest.raises(FocatError, match="sacrebleu has no moses; choose from"):
        check_tokenize("moses")

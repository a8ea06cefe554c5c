"""Scores against a loop over tokens, and candidates read together against each read alone."""

from io import StringIO

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from focat.choices import SCORING_RULES
from focat.corpus.generated import contrapro_suite, voita_suite
from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.evaluation import prefix_scoring
from focat.evaluation.contrastive import ContextConfig, candidate_group
from focat.evaluation.prefix_scoring import CandidateGroup, score_candidates
from focat.evaluation.scoring import Scores, score_texts, sums
from focat.evaluation.suites import contrapro_instances, voita_instances
from focat.progress import Progress
from focat.windows.batch import PaddedSequences
from focat.windows.segments import segments_of
from focat.windows.texts import WindowText, batch_texts
from tests.evaluation.systems_on_hand import make_run


@pytest.fixture(scope="module")
def system(contrast_run):
    return contrast_run.load_model(), contrast_run.tokenizer


def alone(model, tokenizer, groups):
    windows = [WindowText(group.source, [*group.target, text]) for group in groups for text in group.candidates]
    return score_texts(model, tokenizer, windows, batch_windows=12)


def generated_groups(tokenizer, context=None):
    entries, source, target = contrapro_suite(9, 2)
    instances = contrapro_instances(entries, (source, target))
    for phenomenon in ("deixis", "lex_cohesion", "ellipsis_vp"):
        instances += voita_instances(voita_suite(phenomenon, 6, 2))
    return [candidate_group(instance, context or ContextConfig(3, 3), tokenizer) for instance in instances]


def different_prefixes(tokenizer, groups):
    """How many prefixes predict a token."""
    prefixes = set()
    for group in groups:
        for candidate in group.candidates:
            target = batch_texts(tokenizer, [WindowText(group.source, [*group.target, candidate])]).target.tokens
            ids = target[0].tolist()
            prefixes |= {(group.source, len(group.target), *ids[:n]) for n in range(len(ids))}
    return len(prefixes)


def assert_same(found, expected, within):
    for rule in SCORING_RULES:
        np.testing.assert_allclose(found.by(rule), expected.by(rule), rtol=0, atol=within)
    assert found.current_tokens.tolist() == expected.current_tokens.tolist()
    assert found.context_tokens.tolist() == expected.context_tokens.tolist()


def test_rules_by_hand():
    """`a <S> b c <E>`: the current sentence is b c <E>."""
    tokens = torch.tensor([[9, SEPARATOR, 8, 7, END, 0]])
    target = PaddedSequences(tokens, segments_of(tokens), torch.tensor([1]))
    scores = sums(torch.tensor([[-1.0, -2.0, -3.0, -4.0, -5.0, 0.0]]), target)
    assert scores.by("current-sum").tolist() == [-12.0]
    assert scores.by("current-mean").tolist() == [-4.0]
    assert scores.by("window-mean").tolist() == [-3.0]


def test_threads_that_score_at_the_same_time_find_the_same(system):
    model, tokenizer = system
    groups = generated_groups(tokenizer)
    before = torch.get_num_threads()
    found, progress = [], StringIO()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found.append(score_candidates(model, tokenizer, groups, progress=Progress(progress), batch_tokens=200))
    torch.set_num_threads(before)
    assert_same(*found, within=1e-6)
    count = len({(*group.source, *group.target, one) for group in groups for one in group.candidates})
    assert progress.getvalue().count(f"{count:,} candidates") >= 2


def test_scores_equal_a_loop_over_tokens(system):
    model, tokenizer = system
    windows = [
        WindowText(["Here is the lamp.", "It is new."], ["Hier ist die Lampe.", "Sie ist neu."]),
        WindowText(["It is new."], ["Er ist neu."]),
        WindowText(
            ["Do you have time?", "I am here.", "It is new."], ["Hast du Zeit?", "Ich bin hier.", "Es ist neu."]
        ),
    ]
    found = score_texts(model, tokenizer, windows, batch_windows=2)
    for i, window in enumerate(windows):
        batch = batch_texts(tokenizer, [window])
        with torch.no_grad():
            logits = model.project(model(batch.source, batch.target))[0].double()
        current = context = 0.0
        separators = len(window.target) - 1
        for t, token in enumerate(batch.target.tokens[0].tolist()):
            chance = float(logits[t].log_softmax(-1)[token])
            if separators:
                context += chance
                separators -= token == SEPARATOR
            else:
                current += chance
        assert found.current[i] == pytest.approx(current, abs=1e-4)
        assert found.context[i] == pytest.approx(context, abs=1e-4)


@pytest.mark.parametrize(
    ("target_before", "model"),
    [
        (3, {"shift": "avg-sequence", "segment_embeddings": "learned"}),
        (3, {"attention": "long-short", "positions": "rotary"}),
        (1, {"attention": "group", "encoder_layers": 3, "decoder_layers": 3, "norm": "pre", "positions": "learned"}),
        (3, {"attention": "gated-group", "global_layers": [1]}),
        (3, {"context": {"hierarchical": True, "of": "both"}, "shift": 0}),
        (1, {"context": {"at": "global-layer"}, "shift": 0}),
        (0, {"segment_embeddings": "sinusoidal", "segment_embeddings_at": "every-layer", "shift": 100}),
    ],
    ids=["avg-sequence", "long-short", "group", "gated-group", "han-joint", "zheng-2020", "every-layer"],
)
def test_together_is_the_same_as_alone(contrast_store, tmp_path, target_before, model):
    """In double precision, so that a difference of any other kind than rounding shows."""
    run = make_run(contrast_store, tmp_path / "run", {"before": 3, "target_before": target_before}, **model)
    built, tokenizer = run.load_model().double(), run.tokenizer
    groups = generated_groups(tokenizer, ContextConfig.of(run.settings.windows))
    assert_same(score_candidates(built, tokenizer, groups, batch_tokens=300), alone(built, tokenizer, groups), 2e-5)


def test_current_sentences_of_a_second_pass_together_and_alone(contrast_store, tmp_path):
    """CADec predicts no context."""
    run = make_run(contrast_store, tmp_path / "run", {"before": 3}, second_pass={}, shift=0)
    built, tokenizer = run.load_model().double(), run.tokenizer
    groups = generated_groups(tokenizer)
    found = score_candidates(built, tokenizer, groups, batch_tokens=300).by("current-sum")
    np.testing.assert_allclose(found, alone(built, tokenizer, groups).by("current-sum"), rtol=0, atol=2e-5)


def test_together_is_the_same_as_alone_in_single_precision(system):
    model, tokenizer = system
    groups = generated_groups(tokenizer)
    expected = alone(model, tokenizer, groups)
    for batch_tokens in (1, 500, 100_000):  # each tree by itself, some together, all that may be
        assert_same(score_candidates(model, tokenizer, groups, batch_tokens=batch_tokens), expected, 1e-4)


def test_trees_of_every_shape(contrast_store, tmp_path):
    """Twins, equal candidates, one candidate, candidates that part at once, contexts of unequal length, none at all."""
    run = make_run(contrast_store, tmp_path / "run", {"before": 3}, segment_embeddings="learned")
    model, tokenizer = run.load_model(), run.tokenizer
    here, lamp = "Here is the lamp.", "Hier ist die Lampe."
    groups = [
        CandidateGroup((here, "It is new."), (lamp,), ("Sie ist neu.", "Er ist neu.", "Es ist neu.")),
        CandidateGroup((here, "It is new."), ("Da ist das Licht.",), ("Es ist neu.", "Sie ist alt.")),
        CandidateGroup((here, "It is new."), (lamp,), ("Sie ist neu.", "Sie ist neu.")),
        CandidateGroup((here, "It is new."), (), ("Sie ist neu.", "Hier ist die Lampe. Sie ist neu.")),
        CandidateGroup((here, here, "It is new."), (lamp, lamp), ("Sie ist neu.",)),
        CandidateGroup(("It is new.",), (), ("Sie ist neu.", "Sie ist neu und", "Neu.")),
    ]
    found = score_candidates(model, tokenizer, groups)
    assert_same(found, alone(model, tokenizer, groups), 1e-4)
    current = found.by("current-sum")
    assert current[0] == current[5] == current[6]  # the same candidate in the same window: exactly


def test_every_prefix_is_decoded_once(system, monkeypatch):
    """Also one that only some candidates of a source share, or that is a whole candidate."""
    model, tokenizer = system
    groups = generated_groups(tokenizer)
    texts = ("Sie ist neu.", "Sie ist alt.", "Er ist neu.", "Sie ist")
    groups.append(CandidateGroup(("Here is the lamp.", "It is new."), ("Hier ist die Lampe.",), texts))
    decoded = []
    step = model.decode_step
    monkeypatch.setattr(
        model, "decode_step", lambda cache, tokens, **more: decoded.append(tokens) or step(cache, tokens, **more)
    )
    score_candidates(model, tokenizer, groups, batch_tokens=500)
    assert sum(int((tokens != PAD).sum()) for tokens in decoded) == different_prefixes(tokenizer, groups)


def test_nothing_to_score(system):
    model, tokenizer = system
    assert score_candidates(model, tokenizer, []).by("current-sum").tolist() == []


def test_bfloat16_is_close(system):
    model, tokenizer = system
    groups = generated_groups(tokenizer)
    exact, rough = (score_candidates(model, tokenizer, groups, precision) for precision in ("float32", "bfloat16"))
    assert not np.array_equal(exact.current, rough.current)
    np.testing.assert_allclose(rough.by("current-mean"), exact.by("current-mean"), rtol=0.1)


def test_scores_of_a_candidate_do_not_depend_on_the_others(system):
    model, tokenizer = system
    groups = generated_groups(tokenizer)
    whole = score_candidates(model, tokenizer, groups)
    one = score_candidates(model, tokenizer, groups[:1])
    count = len(groups[0].candidates)
    some = Scores(
        *(getattr(whole, name)[:count] for name in ("current", "context", "current_tokens", "context_tokens"))
    )
    assert_same(one, some, 1e-5)


class CopiesToMeta(TorchDispatchMode):
    """Counts the copies of tensors from the host to the meta device."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        given = {tensor.device.type for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, torch.Tensor)}
        self.count += "cpu" in given and isinstance(made, torch.Tensor) and made.is_meta
        return made


def test_the_host_never_waits_for_the_device_before_all_is_queued(contrast_run, monkeypatch):
    """On the meta device, which has shapes and no values, whatever reads a value raises an error."""
    model, tokenizer = contrast_run.load_model(device="meta"), contrast_run.tokenizer
    groups, copied, queued = generated_groups(tokenizer), [], []
    copy, project = prefix_scoring.to_device_async, model.project
    monkeypatch.setattr(prefix_scoring, "to_device_async", lambda *given: copied.append(given) or copy(*given))
    monkeypatch.setattr(model, "project", lambda hidden: queued.append(len(hidden)) or project(hidden))
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)  # which does not know this device
    with CopiesToMeta() as copies, pytest.raises(NotImplementedError, match="out of meta tensor"):
        score_candidates(model, tokenizer, groups, batch_tokens=500)  # there are no scores to return
    assert copies.count == len(copied)  # other copies are not from pinned memory, and wait
    assert len(queued) > 1
    assert sum(queued) == different_prefixes(tokenizer, groups)

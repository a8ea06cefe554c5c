"""The whole model against a slow second version of itself, and what must not change its output."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.vocabulary import PAD, START
from focat.errors import FocatError
from focat.model import Transformer, transformer
from focat.windows.batch import PaddedSequences
from tests.model.examples import MARIAN, VOCABULARY, pair, side, tiny, window
from tests.model.test_positions import slow_positions

EVERYTHING = {
    "shift": 5,
    "segment_embeddings": "learned",
    "segment_embeddings_at": "every-layer",
    "attention": "long-short",
}


def slow_norm(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    centred = x - x.mean()
    scaled = centred / torch.sqrt((centred**2).mean() + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def slow_attention(
    queries: list[Tensor], keys: list[Tensor], values: list[Tensor], heads: int, causal: bool
) -> list[Tensor]:
    """One query, one head, one key at a time."""
    size = len(queries[0]) // heads
    attended = []
    for t, query in enumerate(queries):
        parts = []
        for head in range(heads):
            here = slice(head * size, (head + 1) * size)
            seen = range(t + 1) if causal else range(len(keys))
            scores = [math.exp(float(query[here] @ keys[k][here]) / math.sqrt(size)) for k in seen]
            parts.append(sum(score / sum(scores) * values[k][here] for k, score in zip(seen, scores, strict=True)))
        attended.append(torch.cat(parts))
    return attended


def slow_activation(x: float, kind: str) -> float:
    if kind == "relu":
        return max(x, 0.0)
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2))) if kind == "gelu" else x / (1 + math.exp(-x))


def slow_forward(model: Transformer, source: list[int], target: list[int], shift: int) -> list[Tensor]:
    """The Transformer of Vaswani et al. for one window, with shifted sinusoids, token by token."""
    weights = {name: value.detach() for name, value in model.state_dict().items()}
    settings = model.settings
    width, heads, pre = settings.d_model, settings.heads, settings.norm == "pre"

    def linear(x: Tensor, name: str) -> Tensor:
        return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]

    def embed(tokens: list[int], table: str) -> list[Tensor]:
        embedded = []
        last = width // 2 if settings.sinusoids == "marian" else width // 2 - 1
        for token, position in zip(tokens, slow_positions(tokens, shift), strict=True):
            angles = [(position + settings.position_offset) / 10000 ** (i / last) for i in range(width // 2)]
            encoding = [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
            row = weights[f"{table}.weight"][token]
            if token == START and settings.start_embedding == "zero":
                row = torch.zeros_like(row)
            embedded.append(row * math.sqrt(width) + torch.tensor(encoding, dtype=row.dtype))
        return embedded

    def norm(xs: list[Tensor], name: str) -> list[Tensor]:
        return [slow_norm(x, weights, name) for x in xs]

    def residual(xs: list[Tensor], block: Callable[[list[Tensor]], list[Tensor]], name: str) -> list[Tensor]:
        added = block(norm(xs, f"{name}.norm") if pre else xs)
        sums = [x + each for x, each in zip(xs, added, strict=True)]
        return sums if pre else norm(sums, f"{name}.norm")

    def self_attention(xs: list[Tensor], name: str, causal: bool) -> list[Tensor]:
        triples = [linear(x, f"{name}.qkv_proj").split(width) for x in xs]
        queries, keys, values = ([triple[part] for triple in triples] for part in range(3))
        return [linear(x, f"{name}.out_proj") for x in slow_attention(queries, keys, values, heads, causal)]

    def cross_attention(xs: list[Tensor], name: str) -> list[Tensor]:
        pairs = [linear(x, f"{name}.kv_proj").split(width) for x in encoded]
        queries = [linear(x, f"{name}.q_proj") for x in xs]
        keys, values = ([each[part] for each in pairs] for part in range(2))
        return [linear(x, f"{name}.out_proj") for x in slow_attention(queries, keys, values, heads, causal=False)]

    def feedforward(xs: list[Tensor], name: str) -> list[Tensor]:
        out = []
        for x in xs:
            wide = linear(x, f"{name}.up_proj")
            gated = wide[: settings.d_ff].clone().apply_(lambda v: slow_activation(v, settings.activation))
            up = wide[settings.d_ff :] if settings.activation == "swiglu" else 1.0
            out.append(linear(gated * up, f"{name}.down_proj"))
        return out

    def run(xs: list[Tensor], layer: str, decoder: bool) -> list[Tensor]:
        xs = residual(
            xs, lambda xs: self_attention(xs, f"{layer}.self_attention", decoder), f"{layer}.self_attention_residual"
        )
        if decoder:
            block = f"{layer}.cross_attention"
            xs = residual(xs, lambda xs: cross_attention(xs, block), f"{layer}.cross_attention_residual")
        return residual(xs, lambda xs: feedforward(xs, f"{layer}.feedforward"), f"{layer}.feedforward_residual")

    encoded = embed(source, "source_embedding")
    for i in range(settings.encoder_layers):
        encoded = run(encoded, f"encoder.{i}", decoder=False)
    encoded = norm(encoded, "encoder_norm") if pre else encoded
    xs = embed([START, *target[:-1]], "target_embedding")
    for i in range(settings.decoder_layers):
        xs = run(xs, f"decoder.{i}", decoder=True)
    xs = norm(xs, "decoder_norm") if pre else xs
    return [weights["target_embedding.weight"] @ x + weights.get("output_bias", 0.0) for x in xs]


@pytest.mark.parametrize(
    ("shift", "variant"),
    [
        (0, {}),
        (7, {"activation": "gelu"}),
        (7, {"activation": "swiglu", "norm": "pre"}),
        (0, MARIAN),
        (7, MARIAN | {"position_offset": 3}),
        (7, {"position_offset": 2, "norm": "pre"}),
    ],
)
def test_logits_are_those_of_a_walk_through_the_window(shift: int, variant: dict[str, Any]) -> None:
    source, target = window(2, 1, 3, seed=1), window(1, 3, 2, seed=2)
    model = tiny(shift=shift, **variant)
    found = model.project(model(side(source, window(5, 5)), side(target, window(6, 5))))[0]
    for logits, wanted in zip(found, slow_forward(model, source, target, shift), strict=False):
        torch.testing.assert_close(logits, wanted, atol=1e-5, rtol=0)


def logits_of(model: Transformer, source: PaddedSequences, target: PaddedSequences) -> Tensor:
    return model.project(model(source, target))


VARIANTS: list[dict[str, Any]] = [
    {},
    EVERYTHING,
    {"shift": "avg-sequence", "attention": "group", "norm": "pre", "global_layers": (1,)},
    {"shift": 3, "positions": "rotary", "segment_embeddings": "sinusoidal"},
    {"shift": 3, "positions": "learned", "activation": "swiglu", "embeddings": "shared"},
    MARIAN,
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_padding_changes_nothing(variant: dict[str, Any]) -> None:
    model = tiny(**variant)
    windows = window(2, 1, 3), window(2, seed=1)
    plain = logits_of(model, side(*windows), side(*windows))
    padded = logits_of(model, side(*windows, pads=3), side(*windows, pads=2))
    real = side(*windows).tokens != PAD
    torch.testing.assert_close(padded[:, : plain.shape[1]][real], plain[real])


@pytest.mark.parametrize("variant", VARIANTS)
def test_moved_padding_changes_nothing_on_the_source(variant: dict[str, Any]) -> None:
    model = tiny(**variant)
    source, target = pair()
    rolled = PaddedSequences(source.tokens.clone(), source.segments.clone(), source.current)
    for row, tokens in enumerate(source.tokens):
        pads = int((tokens == PAD).sum())
        rolled.tokens[row], rolled.segments[row] = tokens.roll(pads), source.segments[row].roll(pads)
    torch.testing.assert_close(logits_of(model, rolled, target), logits_of(model, source, target))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_window_does_not_know_its_batch(variant: dict[str, Any]) -> None:
    model = tiny(**variant)
    source, target = pair()
    together = logits_of(model, source, target)
    for row in range(3):
        one = slice(row, row + 1)
        alone = logits_of(
            model,
            PaddedSequences(source.tokens[one], source.segments[one], source.current[one]),
            PaddedSequences(target.tokens[one], target.segments[one], target.current[one]),
        )
        torch.testing.assert_close(together[one], alone)


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_position_sees_its_label(variant: dict[str, Any]) -> None:
    """A later token, even a separator, changes nothing before it and something after it."""
    model = tiny(**variant)
    source, target = side(window(2, 2)), window(3, 3)
    before = logits_of(model, source, side(target, current=[1]))[0]
    for at in range(len(target) - 1):
        for token in (5 if target[at] != 5 else 6, 3):
            changed = side([*target[:at], token, *target[at + 1 :]], current=[1])
            after = logits_of(model, source, changed)[0]
            assert torch.equal(after[: at + 1], before[: at + 1])
            assert token == target[at] or not torch.allclose(after[at + 1], before[at + 1])


def test_only_differences_of_rotary_positions_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = pair()
    model = tiny(shift=5, positions="rotary")
    plain = logits_of(model, source, target)
    original = transformer.positions_of
    monkeypatch.setattr(transformer, "positions_of", lambda sequences, shift: original(sequences, shift) + 17)
    torch.testing.assert_close(logits_of(model, source, target), plain, atol=1e-5, rtol=0)
    monkeypatch.setattr(transformer, "positions_of", lambda sequences, shift: original(sequences, shift + 1))
    assert not torch.allclose(logits_of(model, source, target), plain, atol=1e-3)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_a_shift_matters_only_where_there_is_context(positions: str) -> None:
    source, target = pair()  # the second window has one sentence
    model = tiny(6, positions=positions)
    model.shift = 0
    plain = logits_of(model, source, target)
    model.shift = 6
    shifted = logits_of(model, source, target)
    torch.testing.assert_close(plain[1], shifted[1])
    assert not torch.allclose(plain[0], shifted[0], atol=1e-3)
    assert not torch.allclose(plain[2], shifted[2], atol=1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_gradients_reach_every_parameter(variant: dict[str, Any], dropout: float) -> None:
    model = tiny(**variant, dropout=dropout, attention_dropout=dropout).train()
    source, target = pair()
    torch.nn.functional.cross_entropy(
        logits_of(model, source, target)[target.tokens != PAD], target.tokens[target.tokens != PAD]
    ).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@pytest.mark.parametrize(("embeddings", "matrices"), [("separate", 3), ("tied", 2), ("shared", 1)])
def test_embeddings_are_shared_as_set(embeddings: str, matrices: int) -> None:
    model = tiny(embeddings=embeddings)
    tables = [parameter for parameter in model.parameters() if parameter.shape == (VOCABULARY, 16)]
    assert len(tables) == matrices
    assert len(model.state_dict()) == len(list(model.parameters()))  # no matrix under two names
    assert (model.output_weight is model.target_embedding.weight) == (embeddings != "separate")


def count(**settings: Any) -> int:
    with torch.device("meta"):
        model = Transformer(ModelSettings(**settings), WindowSettings(), 32_000, 32_000, 0)
    return sum(parameter.numel() for parameter in model.parameters())


def test_base_has_the_papers_size() -> None:
    attention, feedforward, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    layers = 6 * (attention + feedforward + 2 * norm) + 6 * (2 * attention + feedforward + 3 * norm)
    shared = count(embeddings="shared")
    assert shared == 32_000 * 512 + layers
    assert 60_500_000 < shared < 60_700_000
    assert count(embeddings="tied") == shared + 32_000 * 512
    assert count(embeddings="shared", norm="pre") == shared + 2 * norm
    assert count(embeddings="shared", activation="swiglu") == shared + 12 * (512 * 2048 + 2048)
    assert count(embeddings="shared", positions="learned") == shared + 2 * 1024 * 512


def test_embeddings_start_as_published() -> None:
    torch.manual_seed(0)
    model = Transformer(ModelSettings(preset="tiny"), WindowSettings(), 2000, 2000, 0)
    assert model.target_embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert not model.target_embedding.weight[PAD].any()


def test_word_dropout_is_in_the_current_sentence_alone() -> None:
    """Training sees a source in which START stands for some words; afterwards nothing is hidden."""
    model = tiny(word_dropout=0.5)
    source, target = side(window(9, 8, 7, seed=1), window(4, seed=2), current=[1, 0]), side(window(2, 3, 1), window(5))
    hidden = [list(tokens) for tokens in source.tokens.tolist()]
    torch.manual_seed(3)
    chance = torch.rand(source.tokens.shape).tolist()
    for i, current in enumerate((range(10, 18), range(4))):  # after nine words and a separator; before the end
        for j in current:
            hidden[i][j] = START if chance[i][j] < 0.5 else hidden[i][j]
    assert 2 < sum(row.count(START) for row in hidden) < 10
    expected = logits_of(model, PaddedSequences(torch.tensor(hidden), source.segments, source.current), target)
    plain = logits_of(model, source, target)
    torch.manual_seed(3)
    torch.testing.assert_close(logits_of(model.train(), source, target), expected)
    torch.testing.assert_close(logits_of(model.eval(), source, target), plain)
    assert not torch.allclose(plain, expected)


def test_two_vocabularies_cannot_be_shared() -> None:
    with pytest.raises(FocatError, match="20 pieces and the target 30"):
        Transformer(ModelSettings(preset="tiny", embeddings="shared"), WindowSettings(), 20, 30, 0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_half_precision_is_close(variant: dict[str, Any]) -> None:
    model = tiny(**variant).float()
    source, target = pair()
    exact = logits_of(model, source, target)
    with torch.autocast("cpu", torch.bfloat16):
        half = logits_of(model, source, target)
        memory = model.encode(source)
        stepped = model.decode_step(model.init_cache(memory), torch.full((3, 1), START))
    assert half.dtype == torch.bfloat16
    assert (half.float() - exact).abs().max() < 0.1 * exact.abs().max()
    assert stepped.isfinite().all()


def test_layers_compile_whole() -> None:
    """Each layer is one graph, for windows of any number and length; only the tracing is tried here, not the speed."""
    model = tiny(**EVERYTHING, positions="rotary", encoder_layers=1, decoder_layers=1)
    source, target = pair()
    one = side(window(3, 2))
    plain = logits_of(model, source, target), logits_of(model, one, one)
    for layer in (*model.encoder, *model.decoder):
        layer.compile(dynamic=True, fullgraph=True, backend="eager")
    torch.testing.assert_close(logits_of(model, source, target), plain[0])
    torch.testing.assert_close(logits_of(model, one, one), plain[1])
    assert model.attention(source, target).cross[0].isfinite().all()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_under_autocast_all_that_passes_between_stacks_is_half(norm: str) -> None:
    source, target = pair()
    model = tiny(norm=norm).float()
    with torch.autocast("cpu", torch.bfloat16):
        encoded = model.encode(source)
        assert encoded.hidden.dtype == torch.bfloat16
        assert model(source, target).dtype == torch.bfloat16

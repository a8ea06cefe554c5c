"""CADec (Voita et al., 2019): a sentence-level system drafts, and a second decoder writes the translation in context.

The sentence-level system translates each sentence of a window alone: own-sentence masks, and positions that start again
in each. What it makes of context sentences and of the draft, top states beside embeddings, is the target memory of
the second decoder. The draft depends on the source alone, so it is part of the encoded source, appended to its tokens
as one more segment; everything that decodes or scores a window works on it as on any other.

Different from the publication: drafts are greedy, not by beam search; those for training are drawn token by token after
the reference's own prefix; a token is paired with the state that has read it, not with the one that predicted it.
"""

from __future__ import annotations

import copy
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.vocabulary import END, PAD, START
from focat.model.attention import WeightsOut
from focat.model.drafts import REFERENCE_NOISE, SAMPLE_NOISE, sample_tokens, with_noise
from focat.model.greedy import greedy_decode
from focat.model.kv_cache import EncoderOutput, TreeKVCache
from focat.model.masks import causal_mask, opened_segments, padding_mask
from focat.model.positions import sentence_positions
from focat.model.second_decoder import SecondDecoder, SecondDecoderLayer
from focat.model.sentence_decoder import SentenceDecoder, StepInputs, as_input
from focat.model.transformer import Transformer
from focat.windows.batch import PaddedSequences, Sequences
from focat.windows.segments import decoder_input

_DRAFT_RATIO, _DRAFT_OFFSET = 2, 20  # a draft has at most so many times the tokens of its source, and so many more
_SAMPLED_AT_ONCE = 4096  # tokens whose logits exist at the same time


class TwoPassTransformer(SentenceDecoder):
    """A sentence-level Transformer and the second decoder; what it computes is the second pass."""

    def __init__(
        self,
        settings: ModelSettings,
        windows: WindowSettings,
        source_vocabulary: int,
        target_vocabulary: int,
        shift: int | Literal["avg-sequence"],
    ) -> None:
        super().__init__(settings, windows, source_vocabulary, target_vocabulary, shift)
        self.second = SecondDecoder(settings, windows.size, target_vocabulary)

    @property
    def output_weight(self) -> Tensor:
        """(target vocabulary, width): the second decoder's own output projection."""
        return self.second.output.weight

    @property
    def first_pass(self) -> Transformer:
        """The sentence-level system inside, sharing its weights."""
        model = copy.copy(self)
        model.__class__ = Transformer  # type: ignore[assignment]
        model.windows = WindowSettings(before=0, max_tokens=self.windows.max_tokens)
        return model

    @property
    def _second_layers(self) -> list[SecondDecoderLayer]:
        return cast("list[SecondDecoderLayer]", self.second.layers)

    @torch.no_grad()
    def start_second_pass(self) -> None:
        """Let the second decoder's output projection begin with that of the first pass."""
        self.second.output.weight.copy_(self.first_pass.output_weight)

    def forward(self, source: Sequences, target: Sequences) -> Tensor:
        """Teacher forcing: the representation that predicts each token of the current sentence, zero elsewhere.

        In training, the draft is made from the current sentence of the target; else from the source.
        """
        assert isinstance(target, PaddedSequences)
        encoded = super().encode(source)
        target_input = decoder_input(target)
        draft = self._training_draft(encoded, target, target_input) if self.training else self._greedy_draft(encoded)
        return self.decode(self._with_draft(encoded, draft), target_input)

    def encode(self, source: Sequences, weights_out: WeightsOut | None = None) -> EncoderOutput:
        """Encode the sentences of the source windows, and draft a translation of the current ones."""
        encoded = super().encode(source, weights_out)
        return self._with_draft(encoded, self._greedy_draft(encoded))

    # ------------------------------------------------------------------------------------------------------- drafts

    def _greedy_draft(self, encoded: EncoderOutput) -> Tensor:
        """The first pass: (windows, length) tokens, PAD behind them."""
        assert isinstance(encoded.source, PaddedSequences)
        tokens = _left_aligned(encoded.source.tokens, _is_current(encoded.source))
        segments = (tokens != PAD).long() - 1
        alone = PaddedSequences(tokens, segments, segments[:, 0])
        draft = greedy_decode(self.first_pass, alone, _DRAFT_RATIO, _DRAFT_OFFSET)
        # what is allowed depends on the sentence, not on the longest of the batch
        limit = _DRAFT_RATIO * (tokens != PAD).sum(-1, keepdim=True) + _DRAFT_OFFSET
        return draft.masked_fill(torch.arange(draft.shape[1], device=draft.device) >= limit, PAD)

    def _training_draft(self, encoded: EncoderOutput, target: PaddedSequences, target_input: PaddedSequences) -> Tensor:
        """The current sentences of the target with noise, or samples of the first pass with less of it."""
        assert self.settings.second_pass is not None
        current, vocabulary = _is_current(target), len(self.output_weight)
        words = target.tokens
        noise = REFERENCE_NOISE
        if float(torch.rand(())) >= self.settings.second_pass.reference_drafts:
            with torch.no_grad():
                states = self.sentence_states(encoded.hidden, encoded.source, target_input)[current]  # (tokens, width)
                project = self.first_pass.project
                drawn = [sample_tokens(project(part)) for part in torch.split(states, _SAMPLED_AT_ONCE)]
            words = words.masked_scatter(current, torch.cat(drawn))
            noise = SAMPLE_NOISE
        ends = target.tokens == END  # stays the last
        return _left_aligned(with_noise(words, noise, vocabulary).masked_fill(ends, END), current)

    def _with_draft(self, encoded: EncoderOutput, draft: Tensor) -> EncoderOutput:
        """Append the draft, (windows, length), to the encoded source as one more segment."""
        source = cast("PaddedSequences", encoded.source)
        tokens = F.pad(draft.masked_fill(draft == END, PAD), (1, 0), value=START)  # the decoder's input
        real = tokens != PAD
        alone = PaddedSequences(tokens, real.long() - 1, torch.zeros_like(source.current))
        visible = padding_mask(_is_current(source))
        mask = causal_mask(tokens.shape[1], tokens.shape[1], tokens.device)
        embedded = self._embed(alone, sentence_positions(alone.segments), self.target_embedding, self.target_positions)
        x = embedded.x
        for layer in self.decoder:
            x = layer.forward(x, encoded.hidden, mask, visible, embedded.rope)
        segments = torch.where(real, source.current[:, None] + 1, -1)
        extended = PaddedSequences(
            torch.cat((source.tokens, tokens), 1), torch.cat((source.segments, segments), 1), source.current
        )
        words = self.target_embedding(tokens).to(x.dtype)
        return EncoderOutput(
            torch.cat((encoded.hidden, self.decoder_norm(x)), 1),
            extended,
            encoded.shift,
            torch.cat((torch.zeros_like(encoded.hidden), words), 1),
        )

    # ---------------------------------------------------------------------------------------------- teacher forcing

    def decode(
        self,
        encoded: EncoderOutput,
        target_input: Sequences,
        weights_out: WeightsOut | None = None,
        cross_weights_out: WeightsOut | None = None,
    ) -> Tensor:
        """Run the second decoder over the current sentence; see `Transformer.decode`. Zero elsewhere."""
        assert isinstance(target_input, PaddedSequences)
        opened = opened_segments(target_input)  # (windows, length)
        distance = target_input.current[:, None] - opened
        states = self.sentence_states(encoded.hidden, encoded.source, target_input)
        memory = torch.cat((self.target_embedding(as_input(target_input.tokens)).to(states.dtype), states), -1)
        of_context = padding_mask((distance > 0) & (target_input.segments >= 0))
        source, draft = _memory_masks(encoded.source)
        current = (distance == 0) & (target_input.segments >= 0)
        rows = current.long().argsort(dim=-1, descending=True, stable=True)[:, : int(current.sum(-1).max())]
        alone = PaddedSequences(
            as_input(target_input.tokens.gather(1, rows)),
            current.gather(1, rows).long() - 1,
            torch.zeros_like(target_input.current),
        )
        mask = causal_mask(rows.shape[1], rows.shape[1], rows.device)
        embedded = self._embed(alone, sentence_positions(alone.segments), self.target_embedding, self.target_positions)
        x = embedded.x
        own: WeightsOut | None = None if weights_out is None else []
        cross: WeightsOut | None = None if cross_weights_out is None else []
        for layer in self._second_layers:
            source_kv, draft_kv = self._memory_kv(layer, encoded)
            context_kv = layer.target_attention.project_memory(memory, distance)
            target_kv = torch.cat((draft_kv[0], context_kv[0]), 2), torch.cat((draft_kv[1], context_kv[1]), 2)
            seen = torch.cat((draft, of_context), -1)
            run = layer if self.training and weights_out is None else layer.forward
            x = run(x, mask, source_kv, source, target_kv, seen, embedded.rope, None, own, cross)
        hidden: Tensor = self.second.norm(x)
        length = target_input.tokens.shape[1]
        real = alone.segments >= 0
        for weights in own or ():
            assert weights_out is not None
            weights_out.append(_spread(_spread(weights, rows, real, length, 3), rows, real, length, 2))
        for weights in cross or ():
            assert cross_weights_out is not None
            begin = int(draft[:, 0, 0].any(0).long().argmax())  # of the draft, behind the source
            cross_weights_out.append(_spread(weights[..., :begin], rows, real, length, 2))
        return _spread(hidden, rows, real, length, 1)

    def _memory_kv(
        self, layer: SecondDecoderLayer, encoded: EncoderOutput
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Keys and values of the encoded source and of the draft behind it, both over the whole length."""
        source = cast("PaddedSequences", encoded.source)
        assert encoded.context is not None
        distance = source.current[:, None] - source.segments
        words = torch.cat((encoded.context, encoded.hidden), -1)
        return (
            layer.source_attention.project_memory(encoded.hidden, distance),
            layer.target_attention.project_memory(words, torch.zeros_like(distance)),
        )

    # ------------------------------------------------------------------------------------------------- step by step

    @property
    def _cached_layers(self) -> int:
        """Of the second decoder, of the first pass, and of the target memory."""
        return 2 * len(self._second_layers) + len(self.decoder)

    def _source_kv(self, encoded: EncoderOutput) -> list[tuple[Tensor, Tensor]]:
        """Those of the source for the second decoder, of the draft, and of the source for the first pass."""
        memories = [self._memory_kv(layer, encoded) for layer in self._second_layers]
        first = [layer.cross_attention.project_kv(encoded.hidden) for layer in self._decoder_layers]
        return [*(of_source for of_source, _ in memories), *(of_draft for _, of_draft in memories), *first]

    @torch.no_grad()
    def decode_step(
        self,
        cache: TreeKVCache,
        tokens: Tensor,
        columns: int | None = None,
        last_only: bool = False,
        branches: Tensor | None = None,
    ) -> Tensor:
        """Run the second decoder over the next tokens of each hypothesis; see `Transformer.decode_step`.

        Tokens of context sentences are read by the first pass, and become part of the target memory.
        """
        rows, new = tokens.shape
        layers = len(self._second_layers)
        inputs = self.step_inputs(cache, tokens, columns, branches)
        memory = self._context_memory(cache, inputs)
        of_context = inputs.cached.mask & (inputs.behind(cache.current) > 0)[:, None, None]
        source, draft = _memory_masks(cache.source)
        seen = torch.cat((draft.expand(-1, -1, of_context.shape[2], -1), of_context), -1)
        x, kv = inputs.embedded.x, inputs.cached.layers
        for i, layer in enumerate(self._second_layers):
            of_source, of_draft = cache.cross_kv[i], cache.cross_kv[layers + i]
            projected = layer.target_attention.project_memory(memory, inputs.distance)
            context_kv = kv[len(kv) - layers + i].append(*projected)
            target_kv = tuple(torch.cat(pair, 2) for pair in zip(of_draft, context_kv, strict=True))
            x = layer.forward(
                x, inputs.own, (of_source[0], of_source[1]), source, (target_kv[0], target_kv[1]), seen,
                inputs.embedded.rope, kv[i],
            )  # fmt: skip
        hidden: Tensor = self.second.norm(x).view(rows, new, -1)
        return hidden[:, -1:] if last_only else hidden

    def _context_memory(self, cache: TreeKVCache, inputs: StepInputs) -> Tensor:
        """Embedding and top state of the first pass for each new token, (windows, queries, 2 · width).

        Zero where no token belongs to a context sentence: nothing sees them then.
        """
        x, second = inputs.embedded.x, len(self._second_layers)
        layers = inputs.cached.layers[second : second + len(self.decoder)]
        words = self.target_embedding(inputs.tokens).to(x.dtype)
        if not bool((inputs.distance > 0).any()):
            for cached in layers:  # read later behind a mask, which does not stop a NaN
                zeros = x.new_zeros(*x.shape[:2], *cached.keys.shape[2:]).transpose(1, 2)
                cached.append(zeros, zeros)
            return torch.cat((words, torch.zeros_like(x)), -1)
        return torch.cat((words, self.step_states(cache, inputs, layers, cache.cross_kv[2 * second :])), -1)


def _is_current(side: PaddedSequences) -> Tensor:
    """(windows, length): which tokens are of the current sentence."""
    return side.segments == side.current[:, None]


def _left_aligned(tokens: Tensor, chosen: Tensor) -> Tensor:
    """The chosen tokens of each row, (windows, most of them in a row), PAD behind them."""
    order = chosen.long().argsort(dim=-1, descending=True, stable=True)
    kept = tokens.masked_fill(~chosen, PAD).gather(1, order)
    return kept[:, : max(int(chosen.sum(-1).max()), 1)]


def _memory_masks(source: Sequences) -> tuple[Tensor, Tensor]:
    """Where an encoded source has tokens of the source, and where those of the draft: (windows, 1, 1, length) each."""
    assert isinstance(source, PaddedSequences)
    draft = source.segments > source.current[:, None]
    return padding_mask((source.segments >= 0) & ~draft), padding_mask(draft)


def _spread(values: Tensor, positions: Tensor, real: Tensor, length: int, dimension: int) -> Tensor:
    """Put values of the current sentence at their positions in the window; zero elsewhere.

    Args:
        values: (windows, …), of the tokens of the current sentence along one dimension.
        positions: (windows, tokens) where each belongs.
        real: (windows, tokens) which of them are tokens.
        length: of the window.
        dimension: which it is.
    """
    shape = [1] * values.dim()
    shape[0], shape[dimension] = positions.shape
    kept = torch.where(real.view(shape), values, 0)
    into = values.new_zeros([length if i == dimension else size for i, size in enumerate(values.shape)])
    return into.scatter(dimension, positions.view(shape).expand_as(values), kept)

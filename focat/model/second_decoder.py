"""The second decoder of CADec (Voita et al., 2019): it writes a translation with source, draft and context in view.

A layer is that of a Transformer's decoder with one attention more: to the source sentences of the window, then to the
target, which is the translations of context sentences and the draft of the current one.
"""

from __future__ import annotations

from torch import Tensor, nn

from focat.config.schema import ModelSettings
from focat.model.attention import CrossAttention, LayerKV, SelfAttention, WeightsOut, init_blocks, split_heads
from focat.model.layers import FeedForward, Residual
from focat.model.positions import RotaryAngles


class MemoryAttention(CrossAttention):
    """Attention to the tokens of several sentences, which differ by their distance from the current one.

    The published model appends a one-hot vector of the distance to each token. Keys and values are linear in it, so
    that is the same as adding a vector for each distance to them.

    Args:
        width: of the queries.
        memory_width: of the tokens that are attended to.
        sentences: in a window.
    """

    def __init__(self, width: int, memory_width: int, sentences: int, heads: int, dropout: float) -> None:
        super().__init__(width, heads, dropout)
        self.kv_proj = nn.Linear(memory_width, 2 * width)
        init_blocks(self.kv_proj, 2, gain=2**-0.5)
        self.distance = nn.Embedding(sentences, 2 * width)
        nn.init.normal_(self.distance.weight, std=width**-0.5)

    def project_memory(self, memory: Tensor, distance: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, (windows, heads, length, head width) each.

        Args:
            memory: (windows, length, memory width).
            distance: (windows, length) sentences between each token and the current one.
        """
        near = distance.clamp(0, self.distance.num_embeddings - 1)
        keys, values = split_heads(self.kv_proj(memory) + self.distance(near), self.heads, 2)
        return keys, values


class SecondDecoderLayer(nn.Module):
    """Self-attention, attention to the source, attention to the target memory, feed-forward."""

    def __init__(self, settings: ModelSettings, sentences: int) -> None:
        super().__init__()
        width, heads, dropout = settings.d_model, settings.heads, settings.attention_dropout
        self.self_attention = SelfAttention(width, heads, dropout)
        self.source_attention = MemoryAttention(width, width, sentences, heads, dropout)
        self.target_attention = MemoryAttention(width, 2 * width, sentences, heads, dropout)
        self.feedforward = FeedForward(settings)
        self.residuals = nn.ModuleList(Residual(settings) for _ in range(4))

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        source: tuple[Tensor, Tensor],
        source_mask: Tensor,
        target: tuple[Tensor, Tensor],
        target_mask: Tensor,
        rope: RotaryAngles | None = None,
        cache: LayerKV | None = None,
        weights_out: WeightsOut | None = None,
        source_weights_out: WeightsOut | None = None,
    ) -> Tensor:
        """Decode x, (windows, length, width); the output has the same shape.

        Args:
            x: the tokens of the current sentence.
            mask: what they see of each other, and of those in the cache.
            source, target: keys and values of the two memories, and what is seen of them.
            rope: angles by which queries and keys of self-attention are rotated.
            cache: keys and values of earlier tokens; those of x are added to it.
            weights_out, source_weights_out: if given, weights of the first two attentions are appended to them.
        """
        first, second, third, fourth = self.residuals
        assert isinstance(first, Residual)
        attended = self.self_attention(first.pre(x), mask, rope, cache=cache, weights_out=weights_out)
        x, block_input = first.post(x, attended, second)  # type: ignore[arg-type]
        attended = self.source_attention(block_input, *source, source_mask, source_weights_out)
        x, block_input = second.post(x, attended, third)  # type: ignore[operator]
        x, block_input = third.post(x, self.target_attention(block_input, *target, target_mask), fourth)  # type: ignore[operator]
        output: Tensor = fourth.post(x, self.feedforward(block_input))[0]  # type: ignore[operator]
        return output


class SecondDecoder(nn.Module):
    """The layers of the second pass, and its own output projection."""

    def __init__(self, settings: ModelSettings, sentences: int, vocabulary: int) -> None:
        super().__init__()
        assert settings.second_pass is not None
        self.layers = nn.ModuleList(SecondDecoderLayer(settings, sentences) for _ in range(settings.second_pass.layers))
        self.norm = nn.LayerNorm(settings.d_model) if settings.norm == "pre" else nn.Identity()
        self.output = nn.Embedding(vocabulary, settings.d_model)
        nn.init.normal_(self.output.weight, std=settings.d_model**-0.5)

"""Segment-shifted positions (section 3.2 of the paper), as sinusoids, learned embeddings or rotations.

`position = index + segment · shift`: every sentence starts `shift` positions later than it would. A separator keeps
the shift of the sentence it closes, and the decoder's start symbol is in segment 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from focat.choices import Sinusoids
from focat.config.schema import WindowSettings
from focat.windows.batch import PackedSequences, Sequences

RotaryAngles = tuple[Tensor, Tensor]  # cosine and sine, (windows, 1, length, head width / 2) each


def shifted_positions(segments: Tensor, shift: Tensor) -> Tensor:
    """The shifted position of every token, counted from 0; padding takes up no position.

    Args:
        segments: (windows, length), -1 on padding.
        shift: (windows,).
    """
    index = (segments >= 0).cumsum(-1) - 1  # (windows, length)
    return index.clamp(min=0) + segments.clamp(min=0) * shift[:, None]


def positions_of(sequences: Sequences, shift: Tensor) -> Tensor:
    """The shifted position of every token of one side of a batch, in the shape of its tokens; shift is (windows,)."""
    if isinstance(sequences, PackedSequences):
        return sequences.index + sequences.segments.clamp(min=0) * shift[sequences.window]
    return shifted_positions(sequences.segments, shift)


def sentence_positions(segments: Tensor) -> Tensor:
    """The position of every token in its own sentence, counted from 0; segments are (windows, length)."""
    index = torch.arange(segments.shape[1], device=segments.device).expand_as(segments)
    starts = torch.ones_like(segments, dtype=torch.bool)
    starts[:, 1:] = segments[:, 1:] != segments[:, :-1]
    return index - index.masked_fill(~starts, 0).cummax(-1).values


def sequence_shift(source: Sequences) -> Tensor:
    """`avg-sequence`: the mean length of a window's source sentences, rounded up.

    Separators and `<E>` are counted; the target uses its source's value.
    """
    if isinstance(source, PackedSequences):
        tokens = source.bounds.diff().long()  # (windows,)
        last = (source.bounds[1:].long() - 1).clamp(min=0)
        sentences = (source.segments[0, last] + 1).clamp(min=1)  # (windows,); padding has none
    else:
        tokens = (source.segments >= 0).sum(-1)
        sentences = source.segments.amax(-1) + 1
    return (tokens + sentences - 1) // sentences


def furthest_position(windows: WindowSettings, shift: int | str) -> int:
    """How many rows a table of learned positions needs.

    With `avg-sequence` the n - 1 shifts of a window of n sentences add up to less than its own length plus n.
    """
    if isinstance(shift, int):
        return windows.max_tokens + windows.size * shift
    return 2 * windows.max_tokens + windows.size


def sinusoids(positions: Tensor, width: int, kind: Sinusoids = "fairseq") -> Tensor:
    """Sine half, then cosine half, with frequencies 1/10000^(i/(width/2-1)), or 1/10000^(i/(width/2)) for `marian`.

    Computed for the positions of each batch rather than looked up, so that no position lies beyond a table. For
    `marian` in float64, as in the table of Hugging Face's Marian class.
    """
    frequencies = sinusoid_frequencies(width, kind, positions.device)
    angles = positions.to(frequencies.dtype)[..., None] * frequencies
    return torch.cat((angles.sin(), angles.cos()), -1).float()  # (windows, length, width)


def sinusoid_frequencies(width: int, kind: Sinusoids, device: torch.device) -> Tensor:
    """Frequencies of the sinusoids of a width, (width / 2,)."""
    half = width // 2
    if kind == "marian":
        return _frequencies(half, half, torch.float64, device)
    return _frequencies(half, max(half - 1, 1), torch.float32, device)


def rope_angles(positions: Tensor, head_width: int) -> RotaryAngles:
    """The angles by which queries and keys are rotated (RoPE; Su et al., 2021), ready for tensors with heads."""
    half = head_width // 2
    frequencies = _frequencies(half, half, torch.float32, positions.device)
    angles = (positions.float()[..., None] * frequencies)[:, None]
    return angles.cos(), angles.sin()


def apply_rope(x: Tensor, angles: RotaryAngles) -> Tensor:
    """Rotate queries or keys, (windows, heads, length, head width): entry i makes a pair with entry i + half."""
    cosine, sine = angles
    first, second = x.chunk(2, -1)
    rotated = torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
    return rotated.to(x.dtype)


def _frequencies(count: int, last: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """1/10000^(i/last), for i below `count`."""
    exponents = torch.arange(count, device=device, dtype=dtype) / last
    return torch.exp(exponents * -math.log(10000.0))

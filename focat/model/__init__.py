"""The model: a batch of windows in, logits out (section 3 of the paper)."""

from focat.model.kv_cache import EncoderOutput, TreeKVCache
from focat.model.transformer import AttentionWeights, Transformer

__all__ = ["AttentionWeights", "EncoderOutput", "Transformer", "TreeKVCache"]

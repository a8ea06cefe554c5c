"""The model: a batch of windows in, logits out (section 3 of the paper)."""

from focat.config.schema import ModelSettings
from focat.model.attention import AttentionWeights
from focat.model.hierarchical_decoder import HierarchicalDecoderTransformer
from focat.model.kv_cache import EncoderOutput, TreeKVCache
from focat.model.transformer import Transformer
from focat.model.two_pass import TwoPassTransformer

__all__ = ["AttentionWeights", "EncoderOutput", "Transformer", "TreeKVCache", "model_class"]


def model_class(settings: ModelSettings) -> type[Transformer]:
    """The class of the model that these settings describe."""
    if settings.second_pass:
        return TwoPassTransformer
    if settings.context and settings.context.of != "source":
        return HierarchicalDecoderTransformer
    return Transformer

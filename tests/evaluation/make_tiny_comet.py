"""Runs inside COMET's environment: python make_tiny_comet.py FOLDER makes FOLDER/checkpoints/model.ckpt.

A real model of the real package, with a tiny encoder and random weights: nothing has to be downloaded.
"""

import sys
from pathlib import Path

import torch
import yaml
from comet.models import RegressionMetric
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
TEXT = ["Where is the cat? It is asleep. Wo ist die Katze? Sie schläft. Er es ist 0 1 2 3 4 5 6 7 8 9"] * 20


def main(folder: Path) -> None:
    encoder = folder / "encoder"
    encoder.mkdir(parents=True)
    save_tokenizer(encoder)
    config = XLMRobertaConfig(
        vocab_size=200,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=44,  # room for 38 tokens
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        type_vocab_size=1,
        initializer_range=0.5,  # large, so that texts get scores of their own
    )
    config.save_pretrained(encoder)
    torch.manual_seed(1)
    model = RegressionMetric(
        pretrained_model=str(encoder),
        load_pretrained_weights=False,
        local_files_only=True,
        hidden_sizes=[32, 16],
        validation_data=[],
        train_data=[],
    )
    for parameter in model.estimator.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    (folder / "checkpoints").mkdir()
    checkpoint = {
        "state_dict": model.state_dict(),
        "hyper_parameters": dict(model.hparams),
        "pytorch-lightning_version": "2.0.0",
    }
    torch.save(checkpoint, folder / "checkpoints" / "model.ckpt")
    (folder / "hparams.yaml").write_text(yaml.safe_dump({"class_identifier": "regression_metric"}))


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=150, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ids)
    XLMRobertaTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Runs inside COMET's environment: COMET and doc-COMET again, one sentence at a time, pooled token by token."""

import json
import sys

import torch
from comet import load_from_checkpoint


def embedding(model, sentences):
    """The mean over <s> and the tokens of the last sentence, its </s> included."""
    tokenizer = model.encoder.tokenizer
    ids = tokenizer(f" {tokenizer.sep_token} ".join(sentences))["input_ids"]
    tokens, mask = torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long)
    layers = model.encoder(tokens, mask)["all_layers"]
    vectors = model.layerwise_attention(layers, mask)[0]
    ends = [i for i, token in enumerate(ids) if token == tokenizer.sep_token_id]
    start = ends[-2] + 1 if len(ends) > 1 else 1
    kept = [vectors[0], *(vectors[i] for i in range(start, len(ids)))]
    return torch.stack(kept).mean(0)


@torch.no_grad()
def main() -> None:
    model = load_from_checkpoint(sys.argv[1]).eval()
    scores = {0: [], 1: []}
    for source, hypothesis, reference in zip(*json.load(sys.stdin), strict=True):
        for i in range(len(source)):
            for context, found in scores.items():
                before = slice(max(i - context, 0), i)
                src = embedding(model, [*source[before], source[i]])
                mt = embedding(model, [*reference[before], hypothesis[i]])
                ref = embedding(model, [*reference[before], reference[i]])
                features = (mt, ref, mt * ref, abs(mt - ref), mt * src, abs(mt - src))
                found.append(model.estimator(torch.cat(features)[None]).item())
    print("\n" + json.dumps(scores))


if __name__ == "__main__":
    main()

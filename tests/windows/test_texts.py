"""Windows of plain sentences are the windows that the store would give."""

import pytest
import torch

from focat.config import Settings
from focat.config.schema import WindowSettings
from focat.corpus.generated import generate
from focat.corpus.prepare import prepare
from focat.corpus.store import Store
from focat.progress import NULL_PROGRESS
from focat.windows.loader import Loader
from focat.windows.texts import WindowText, batch_texts


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    data = {
        "store": str(tmp_path_factory.mktemp("texts") / "store"),
        "train": [{"format": "generated", "documents": 20, "seed": 3}],
        "tokenizer": {"vocabulary": 330},
    }
    settings = Settings.model_validate({"data": data})
    prepare(settings.data, NULL_PROGRESS)
    return Store(settings.data.store)


def test_same_windows_as_the_loader(store):
    documents = list(generate(20, 3))
    texts = [
        WindowText(document.source[max(0, i - 2) : i + 1], document.target[max(0, i - 2) : i + 1])
        for document in documents
        for i in range(len(document.source))
    ]
    loader = Loader(store.split("train"), WindowSettings(before=2), batch_tokens=400)
    seen = 0
    for batch in loader.one_pass():
        mine = batch_texts(store.tokenizer, [texts[i] for i in batch.sentences.tolist()])
        for found, expected in ((mine.source, batch.source), (mine.target, batch.target)):
            length = found.tokens.shape[1]  # the loader pads to one of its own lengths
            assert torch.equal(found.tokens, expected.tokens[:, :length])
            assert torch.equal(found.segments, expected.segments[:, :length])
            assert torch.equal(found.current, expected.current)
            assert (expected.tokens[:, length:] == 0).all()
        seen += len(batch.sentences)
    assert seen == len(texts)

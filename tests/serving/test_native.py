"""The native API: documents in their context, streams, cancelling, explanations, files."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import docx
import pytest
import requests

from focat.api import Model
from focat.corpus.generated import generate
from tests.serving.running import RunningServer
from tests.translation.documents import saved, with_words

DOCUMENT = list(next(iter(generate(1, 9))).source)[:6]


def events(response: requests.Response) -> list[tuple[str, Any]]:
    """The server-sent events of a response."""
    blocks = [block for block in response.content.decode().split("\n\n") if block and not block.startswith(":")]
    parted = [block.split("\n") for block in blocks]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parted]


def test_models(server: RunningServer) -> None:
    (described,) = server.request("GET", "/v1/models").json()["models"]
    assert described == {"id": "run-0", "source": "en", "target": "de", "window": 3, "reuse": True, "nbest": 4}


def test_a_document_is_translated_as_by_the_translator(server: RunningServer, model: Model) -> None:
    answer = server.post("/v1/documents", {"sentences": DOCUMENT, "nbest": 2}).json()
    assert (answer["source"], answer["target"]) == ("en", "de")
    (expected,) = model.stream([DOCUMENT], nbest=2)
    for i, (sentence, translation) in enumerate(zip(answer["sentences"], expected, strict=True)):
        assert sentence.pop("score") == pytest.approx(translation.score, abs=1e-4)
        scores = [alternative.pop("score") for alternative in sentence["alternatives"]]
        assert scores == pytest.approx([alternative.score for alternative in translation.alternatives], abs=1e-4)
        texts = [{"text": alternative.text} for alternative in translation.alternatives]
        assert sentence == {
            "index": i,
            "source": DOCUMENT[i],
            "translation": translation.text,
            "alternatives": texts,
            "fixed": False,
        }


def test_context_and_fixed_translations(server: RunningServer, model: Model) -> None:
    whole = server.translated(sentences=DOCUMENT)
    assert whole == model.translate(DOCUMENT)
    before = [{"source": source} for source in DOCUMENT[:2]]
    assert server.translated(sentences=DOCUMENT[2:3], context=before) == whole[2:3]
    alone = server.translated(sentences=DOCUMENT[2:3])
    given = [{"source": source, "translation": "Tom schläft."} for source in DOCUMENT[:2]]
    corrected = server.translated(sentences=DOCUMENT[2:3], context=given)
    assert len({corrected[0], alone[0], whole[2]}) == 3
    fixed = server.post("/v1/documents", {"sentences": DOCUMENT[:3], "translations": ["Tom schläft."] * 2}).json()
    assert [sentence["fixed"] for sentence in fixed["sentences"]] == [True, True, False]
    assert [sentence["translation"] for sentence in fixed["sentences"]] == ["Tom schläft.", "Tom schläft.", *corrected]
    assert fixed["sentences"][0]["score"] is None


def test_start_and_breaks(server: RunningServer) -> None:
    whole = server.translated(sentences=DOCUMENT)
    answer = server.post("/v1/documents", {"sentences": DOCUMENT, "start": 2}).json()
    assert [sentence["index"] for sentence in answer["sentences"]] == [2, 3, 4, 5]
    assert [sentence["translation"] for sentence in answer["sentences"]] == whole[2:]
    apart = server.translated(sentences=DOCUMENT[:3]) + server.translated(sentences=DOCUMENT[3:])
    assert server.translated(sentences=DOCUMENT, breaks=[3]) == apart != whole


def test_text_is_split(server: RunningServer) -> None:
    answer = server.post("/v1/documents", {"text": "Tom sleeps. He is old.\n\nWhere is the cat?\n"}).json()
    assert [sentence["source"] for sentence in answer["sentences"]] == [
        "Tom sleeps.",
        "He is old.",
        "Where is the cat?",
    ]
    assert [sentence["paragraph"] for sentence in answer["sentences"]] == [0, 0, 1]


def test_blank_and_no_sentences(server: RunningServer) -> None:
    assert server.translated(sentences=[]) == []
    assert server.translated(sentences=["", " \u2028", DOCUMENT[0]]) == [
        "",
        "",
        *server.translated(sentences=DOCUMENT[:1]),
    ]


def test_stream(server: RunningServer) -> None:
    response = server.post("/v1/documents", {"sentences": DOCUMENT, "stream": True, "id": "mine"})
    assert response.headers["content-type"].startswith("text/event-stream")
    *sentences, (last, done) = events(response)
    assert [(name, data["index"]) for name, data in sentences] == [("sentence", i) for i in range(6)]
    assert [data["translation"] for _, data in sentences] == server.translated(sentences=DOCUMENT)
    assert (last, done["id"], done["sentences"]) == ("done", "mine", 6)


def test_cancel(server: RunningServer) -> None:
    """A document that is cancelled ends with an error, and frees its place."""
    long = {"sentences": DOCUMENT * 500, "id": "long"}
    answers = []
    thread = threading.Thread(target=lambda: answers.append(server.post("/v1/documents", long)))
    thread.start()
    while server.request("DELETE", "/v1/documents/long").status_code != 204:
        pass
    thread.join()
    assert answers[0].status_code == 409
    assert server.service.waiting == 0
    assert server.request("DELETE", "/v1/documents/long").status_code == 404


def test_a_client_that_closes_its_stream_cancels(server: RunningServer) -> None:
    with requests.post(
        f"{server.url}/v1/documents", json={"sentences": DOCUMENT * 500, "stream": True}, stream=True, timeout=60
    ) as response:
        next(response.iter_lines())
    while server.service.waiting:
        pass
    assert server.translated(sentences=DOCUMENT[:1])


def test_a_sentence_that_fits_into_no_window_is_not_explained(server: RunningServer) -> None:
    body = {"sentences": ["a", "x[" * 200], "translations": ["b", "c"], "index": 1}
    answer = server.post("/v1/explain", body)
    assert answer.status_code == 400
    assert "sentence 1 or its translation has " in answer.json()["error"]["message"]
    assert server.post("/v1/explain", body | {"index": 0}).status_code == 200


def test_explain(server: RunningServer, model: Model) -> None:
    translations = ["Wo ist die Katze?", "Tom schläft.", "Sie ist alt."]
    sentences = ["Where is the cat?", "Tom sleeps.", "It is old."]
    answer = server.post("/v1/explain", {"sentences": sentences, "translations": translations, "index": 2}).json()
    assert answer["alone"] == model.translate(["It is old."])[0]
    assert answer["indices"] == [0, 1, 2]
    assert answer["words"]["source"] == [sentence.split() for sentence in sentences]
    assert answer["words"]["target"] == [sentence.split() for sentence in translations]
    for side in ("source", "target"):
        lengths = [len(words) for words in answer["words"][side]]
        assert [len(shares) for shares in answer["attention"][side]] == lengths
    whole = model.score(sentences, translations)[2].log_probability
    for contribution, kept in zip(answer["contributions"], ([1, 2], [0, 2]), strict=True):
        without = model.score([sentences[i] for i in kept], [translations[i] for i in kept])[1].log_probability
        assert contribution["difference"] == pytest.approx(whole - without, abs=1e-3)


@pytest.mark.parametrize(
    ("path", "body", "parameter"),
    [
        ("/v1/documents", {"sentences": "Tom sleeps."}, "sentences"),
        ("/v1/documents", {"sentences": ["Tom sleeps.", 3]}, "sentences.1"),
        ("/v1/documents", {}, "sentences"),
        ("/v1/documents", {"sentences": [], "text": ""}, "sentences"),
        ("/v1/documents", {"sentences": ["Tom sleeps."], "sorce": "en"}, "sorce"),
        ("/v1/documents", {"sentences": ["Tom sleeps."], "source": "fr"}, "source"),
        ("/v1/documents", {"sentences": ["Tom sleeps."], "nbest": 5}, "nbest"),
        ("/v1/documents", {"sentences": ["Tom sleeps."], "start": 2}, "start"),
        ("/v1/documents", {"sentences": ["Tom sleeps."], "translations": ["Tom schläft.", ""]}, "translations"),
        ("/v1/explain", {"sentences": ["Tom sleeps."], "translations": ["Tom schläft."], "index": 1}, "index"),
        ("/v1/explain", {"sentences": ["Tom sleeps."], "translations": [None], "index": 0}, "translations"),
    ],
)
def test_what_is_wrong_is_named(server: RunningServer, path: str, body: Any, parameter: str) -> None:
    response = server.post(path, body)
    assert response.status_code == 400
    assert response.json()["error"]["parameter"] == parameter


def test_files_and_export(server: RunningServer) -> None:
    srt = "1\n00:00:01,000 --> 00:00:02,000\nTom sleeps.\n\n2\n00:00:03,000 --> 00:00:04,000\nHe is old.\n"
    read = server.request("POST", "/v1/files", files={"file": ("film.srt", srt)}).json()
    sentences = ["Tom sleeps.", "He is old."]
    nothing = {"breaks": [], "translations": [None, None], "required": [[], []]}
    assert read == {"format": "srt", "sentences": sentences, **nothing}
    text = server.request("POST", "/v1/files", files={"file": ("a.txt", "Tom sleeps.\n\nHe is old.\n")}).json()
    assert text["breaks"] == [1]
    form = {"translations": json.dumps(["Tom schläft.", "Er ist alt."])}
    export = server.request("POST", "/v1/export", data=form, files={"file": ("film.srt", srt)})
    assert export.content.decode() == srt.replace("Tom sleeps.", "Tom schläft.").replace("He is old.", "Er ist alt.")
    wrong = server.request("POST", "/v1/export", data={"translations": "[]"}, files={"file": ("film.srt", srt)})
    assert wrong.status_code == 400
    unknown = server.request("POST", "/v1/files", files={"file": ("film.s" + "@" * 3000, srt)})
    assert unknown.status_code == 400
    assert len(unknown.json()["error"]["message"]) < 1010
    assert unknown.json()["error"]["message"].endswith("If each line of it is a sentence, choose the format text")
    broken = server.request("POST", "/v1/files", files={"file": ("film.srt", b"\xff")})
    assert broken.status_code == 400
    assert broken.json()["error"]["message"].startswith("film.srt")


def test_documents(server: RunningServer, tmp_path: Path) -> None:
    content = saved(with_words("<w:p><w:r><w:t>Tom sleeps.</w:t></w:r></w:p>"), tmp_path / "a.docx").read_bytes()
    read = server.request("POST", "/v1/files", files={"file": ("a.docx", content)}).json()
    assert (read["format"], read["sentences"]) == ("docx", ["Tom sleeps."])
    form = {"translations": json.dumps(["Tom schläft."])}
    export = server.request("POST", "/v1/export", data=form, files={"file": ("a.docx", content)})
    assert [p.text for p in docx.Document(io.BytesIO(export.content)).paragraphs] == ["Tom schläft."]
    broken = server.request("POST", "/v1/files", files={"file": ("a.docx", content[:-100])})
    assert broken.status_code == 400
    assert broken.json()["error"]["message"].startswith("a.docx: is no DOCX file")


def test_files_that_hold_translations_placeholders_and_tags(server: RunningServer) -> None:
    po = 'msgid "Hello, Mrs Klein."\nmsgstr "Hallo, Frau Klein."\n\nmsgid "Do you see <b>Tom</b>, %s?"\nmsgstr ""\n'
    read = server.request("POST", "/v1/files", files={"file": ("a.po", po)}).json()
    assert read["sentences"] == ["Hello, Mrs Klein.", "Do you see Tom, %s?"]
    assert read["translations"] == ["Hallo, Frau Klein.", None]
    assert read["required"] == [[], [["%s"]]]
    body = {name: read[name] for name in ("sentences", "translations", "required")}
    given, found = server.translated(**body)
    assert given == "Hallo, Frau Klein."
    assert "%s" in found
    form = {"translations": json.dumps([given, "Sehen Sie, %s, Tom?"])}
    export = server.request("POST", "/v1/export", data=form, files={"file": ("a.po", po)}).content.decode()
    assert 'msgstr "Hallo, Frau Klein."' in export
    assert 'msgstr "Sehen Sie, %s, <b>Tom</b>?"' in export  # a name is its own translation, wherever it stands
    assert server.post("/v1/documents", {**body, "required": [[[]]]}).json()["error"]["parameter"] == "required"

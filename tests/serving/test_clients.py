"""The APIs of LibreTranslate, DeepL and DeepLX, as their own clients and curl use them."""

from __future__ import annotations

import io
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deepl
import docx
import pytest
import requests
from libretranslatepy import LibreTranslateAPI
from lxml import html

from focat.api import Model
from focat.corpus.generated import generate
from focat.serving.files import ClientFile
from focat.serving.texts import read_text
from focat.translation.formats.placeholders import placeholders
from focat.translation.sentence import as_input
from tests.serving.running import RunningServer
from tests.translation.documents import saved, with_words

DOCUMENT = list(next(iter(generate(1, 9))).source)[:4]


@pytest.fixture
def deepl_client(server: RunningServer) -> deepl.DeepLClient:
    return deepl.DeepLClient("any", server_url=server.url)


def curl(server: RunningServer, path: str, *arguments: str) -> Any:
    done = subprocess.run(["curl", "-sS", server.url + path, *arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def session(name: str) -> dict[str, str]:
    """A field that keeps a test apart from what others have sent."""
    return {"session": name}


def test_libretranslate_client(server: RunningServer, model: Model) -> None:
    client = LibreTranslateAPI(server.url, api_key="libretranslatepy")
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    (first, *_) = client.detect("Where is the cat?")
    assert first["language"] == "en"
    assert first["confidence"] > 50
    whole = model.translate(DOCUMENT)
    assert client.translate(DOCUMENT[0], "en", "de") == whole[0]


def test_a_list_is_a_document(server: RunningServer, deepl_client: deepl.DeepLClient, model: Model) -> None:
    whole, apart = model.translate(DOCUMENT), [model.translate([sentence])[0] for sentence in DOCUMENT]
    assert whole != apart
    body = {"q": DOCUMENT, "source": "en", "target": "de"}
    assert server.post("/translate", body).json() == {"translatedText": whole}
    found = deepl_client.translate_text(DOCUMENT, source_lang="EN", target_lang="DE")
    assert [each.text for each in found] == whole
    assert {each.detected_source_lang for each in found} == {"EN"}


def test_of_a_long_context_the_last_sentences_count(server: RunningServer, model: Model) -> None:
    body = {"q": DOCUMENT[3], "source": "en", "target": "de", "context": " ".join(DOCUMENT[:3]), **session("long")}
    answer = server.post("/translate", body).json()["translatedText"]
    assert answer == model.translate(DOCUMENT[1:4])[2] != model.translate([*DOCUMENT[:2], DOCUMENT[3]])[2]


def test_a_blank_text_takes_no_place_in_the_context(server: RunningServer) -> None:
    """Two sentences before it fit into its window, also if a client has sent a blank one behind them."""

    def last(name: str, *texts: str) -> str:
        found = ""
        for text in texts:
            body = {"text": [text], "source_lang": "EN", "target_lang": "DE", "split_sentences": "0", **session(name)}
            found = server.post("/v2/translate", body).json()["translations"][0]["text"]
        return found

    assert last("blank", *DOCUMENT[:2], " ", DOCUMENT[2]) == last("none blank", *DOCUMENT[:3])
    assert last("less", *DOCUMENT[1:3]) != last("more", *DOCUMENT[:3])


def test_context_of_a_single_text(server: RunningServer, model: Model) -> None:
    """Two sentences before it fill its window; DeepL's `context` and that of /translate mean the same."""
    expected = model.translate(DOCUMENT[:3])[2]
    before = " ".join(DOCUMENT[:2])
    deepl_client = deepl.DeepLClient("has sent nothing", server_url=server.url)
    found = deepl_client.translate_text(DOCUMENT[2], source_lang="EN", target_lang="DE", context=before)
    assert found.text == expected != model.translate(DOCUMENT[2:3])[0]
    body = {"q": DOCUMENT[2], "source": "en", "target": "de", "context": before, **session("context")}
    assert server.post("/translate", body).json() == {"translatedText": expected}
    lx = {"text": DOCUMENT[2], "source_lang": "EN", "target_lang": "DE", "context": before, **session("lx")}
    assert server.post("/translate", lx).json()["data"] == expected


def test_sentences_one_by_one(server: RunningServer) -> None:
    """What a client has sent is context of what it sends next, until it is forgotten; not of what others send."""

    def translated(text: str, name: str) -> str:
        body = {"q": text, "source": "en", "target": "de", **session(name)}
        return server.post("/translate", body).json()["translatedText"]

    answers: list[str] = []
    for i, sentence in enumerate(DOCUMENT):
        context = [{"source": s, "translation": t} for s, t in zip(DOCUMENT[:i], answers, strict=True)]
        (expected,) = server.translated(sentences=[sentence], context=context)
        answers.append(translated(sentence, "one"))
        assert answers[-1] == expected
    (alone,) = server.translated(sentences=DOCUMENT[-1:])
    assert translated(DOCUMENT[-1], "two") == alone != answers[-1]
    assert server.request("DELETE", "/v1/memory?session=one").status_code == 204
    assert translated(DOCUMENT[-1], "one") == alone


def test_deepl_answers(server: RunningServer, deepl_client: deepl.DeepLClient) -> None:
    assert [(each.code, each.name) for each in deepl_client.get_source_languages()] == [("EN", "English")]
    (target,) = deepl_client.get_target_languages()
    assert (target.code, target.name, target.supports_formality) == ("DE", "German", False)
    before = deepl_client.get_usage().character
    deepl_client.translate_text("Tom sleeps.", target_lang="DE")
    after = deepl_client.get_usage().character
    assert after.count == before.count + len("Tom sleeps.")
    with pytest.raises(deepl.DeepLException, match="FR is not supported"):
        deepl_client.translate_text("Tom sleeps.", target_lang="FR")
    with pytest.raises(deepl.DeepLException, match="formality"):
        deepl_client.translate_text("Tom sleeps.", target_lang="DE", formality="more")
    form = server.request(
        "POST", "/v2/translate", data={"text": DOCUMENT[:2], "target_lang": "de", "source_lang": "en"}
    )
    assert [set(each) for each in form.json()["translations"]] == [{"detected_source_language", "text"}] * 2


def test_curl(server: RunningServer) -> None:
    form = curl(
        server, "/translate", "-d", "q=Tom sleeps.", "-d", "source=auto", "-d", "target=de", "-d", "alternatives=2"
    )
    assert set(form) == {"translatedText", "alternatives", "detectedLanguage"}
    assert len(form["alternatives"]) == 2
    assert form["detectedLanguage"]["language"] == "en"
    multipart = curl(server, "/translate", "-F", "q=Tom sleeps.", "-F", "source=EN-US", "-F", "target=de_AT")
    assert set(multipart) == {"translatedText"}
    lx = curl(server, "/translate", "--json", '{"text": "Tom sleeps.", "target_lang": "DE"}')
    assert set(lx) == {"code", "id", "method", "data", "alternatives", "source_lang", "target_lang"}
    assert (lx["code"], lx["source_lang"], lx["target_lang"]) == (200, "EN", "DE")
    settings = curl(server, "/frontend/settings")
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert ".srt" in settings["supportedFilesFormat"]


def test_apertium(server: RunningServer, model: Model) -> None:
    """As OmegaT asks: the bar between the languages as it is."""
    found = curl(server, "/translate?q=Tom%20sleeps.&markUnknown=no&langpair=en_US|de&key=omegat")
    assert found["responseStatus"] == 200
    assert found["responseData"]["translatedText"] == model.translate(["Tom sleeps."])[0]
    assert server.request("GET", "/translate?q=Tom").status_code == 400
    answer = server.request("GET", "/translate?q=Tom%20sleeps.&langpair=en|de&session=omegat").text
    before, _, rest = answer.partition('{"translatedText": "')  # as version 3.6 of OmegaT finds it
    assert before == '{"responseData": '
    assert rest.partition('"}')[0] == json.dumps(model.translate(["Tom sleeps."])[0])[1:-1]


def test_fields_in_the_address(server: RunningServer) -> None:
    """As deep-translator sends them, with an empty body."""
    fields = {"q": "Tom sleeps.", "source": "en", "target": "de", "format": "text", **session("address")}
    found = server.request("POST", "/translate", params=fields)
    assert found.json() == server.post("/translate", {**fields, **session("body")}).json()
    assert server.request("POST", "/translate").status_code == 400


def test_texts_of_several_sentences_keep_their_form(server: RunningServer, model: Model) -> None:
    whole = model.translate(["Tom sleeps.", "He is old.", "Where is the cat?"])
    text = "  Tom sleeps. He is old.\r\n\r\n- Where is the cat?\n"
    body = {"q": text, "source": "en", "target": "de", **session("form")}
    expected = f"  {whole[0]} {whole[1]}\r\n\r\n- {whole[2]}\n"
    assert server.post("/translate", body).json()["translatedText"] == expected


def test_a_file(server: RunningServer, model: Model) -> None:
    content = "Tom sleeps.\nHe is old.\n\nWhere is the cat?\n"
    first, second = model.translate([["Tom sleeps.", "He is old."], ["Where is the cat?"]])
    data = {"source": "en", "target": "de"}
    answer = server.request("POST", "/translate_file", data=data, files={"file": ("talk.txt", content)}).json()
    fetched = requests.get(answer["translatedFileUrl"], timeout=60)
    assert fetched.text == "\n".join([*first, "", *second, ""])
    assert fetched.headers["content-disposition"] == 'attachment; filename="talk.de.txt"'
    assert requests.get(answer["translatedFileUrl"], timeout=60).status_code == 404


def test_a_document_in_a_language_that_is_found_out(server: RunningServer, model: Model, tmp_path: Path) -> None:
    sentences = ["Where is the cat?", "Tom sleeps."]
    content = "".join(f"<w:p><w:r><w:t>{sentence}</w:t></w:r></w:p>" for sentence in sentences)
    path = saved(with_words(content), tmp_path / "a.docx")
    files = {"file": ("a.docx", path.read_bytes())}
    read = ClientFile("a.docx", path.read_bytes(), "docx", False)
    languages = SimpleNamespace(source="en", target="de")
    assert read.shown_text(languages) == " ".join(sentences)  # type: ignore[arg-type]
    answer = server.request("POST", "/translate_file", data={"source": "auto", "target": "de"}, files=files).json()
    fetched = requests.get(answer["translatedFileUrl"], timeout=60)
    found = [p.text for p in docx.Document(io.BytesIO(fetched.content)).paragraphs]
    assert found == model.translate(sentences)


def test_deepl_client_translates_documents(deepl_client: deepl.DeepLClient, model: Model, tmp_path: Path) -> None:
    sentences = ["Where is the cat?", "Tom sleeps."]
    content = "".join(f"<w:p><w:r><w:t>{sentence}</w:t></w:r></w:p>" for sentence in sentences)
    path = saved(with_words(content), tmp_path / "a.docx")
    used = deepl_client.get_usage().character.count
    status = deepl_client.translate_document_from_filepath(path, tmp_path / "a.de.docx", target_lang="DE")
    assert status.done
    assert status.billed_characters == sum(map(len, sentences))
    assert deepl_client.get_usage().character.count == used + sum(map(len, sentences))
    found = [p.text for p in docx.Document(str(tmp_path / "a.de.docx")).paragraphs]
    assert found == model.translate(sentences)


def test_documents_of_deepl_step_by_step(server: RunningServer) -> None:
    files = {"file": ("talk.txt", "Tom sleeps.\n")}
    sent = server.request("POST", "/v2/document", data={"target_lang": "DE", "source_lang": "EN"}, files=files).json()
    path, key = f"/v2/document/{sent['document_id']}", {"document_key": sent["document_key"]}
    for wrong in ({"document_key": "x"}, {"document_key": "é"}):
        assert server.post(path, wrong).status_code == 404
        assert server.post(f"{path}/result", wrong).status_code == 404
    assert server.post(path, {}).status_code == 400
    while (status := server.post(path, key).json())["status"] == "translating":
        pass
    assert status == {"document_id": sent["document_id"], "status": "done", "billed_characters": 11}
    fetched = server.post(f"{path}/result", key)
    assert fetched.headers["content-disposition"] == 'attachment; filename="talk.de.txt"'
    assert fetched.text.count("\n") == 1
    assert server.post(f"{path}/result", key).status_code == 404  # once


@pytest.mark.parametrize(
    ("fields", "name", "message"),
    [
        ({}, "a.txt", "target_lang: is missing"),
        ({"target_lang": "XX"}, "a.txt", "XX is not supported"),
        ({"target_lang": "DE", "formality": "more"}, "a.txt", "formality: this model chooses it"),
        ({"target_lang": "DE", "glossary_id": "g"}, "a.txt", "glossary_id: this server has no glossaries"),
        ({"target_lang": "DE", "output_format": "pdf"}, "a.txt", "output_format: pdf is not that of the file"),
        ({"target_lang": "DE"}, "a.pdf", "a.pdf: focat does not read .pdf files"),
        ({"target_lang": "DE"}, "a.docx", "a.docx: is no DOCX file"),
        ({"target_lang": "DE", "filename": "a.docx"}, "a.txt", "a.docx: is no DOCX file"),
    ],
)
def test_documents_that_deepl_would_refuse(
    server: RunningServer, fields: dict[str, str], name: str, message: str
) -> None:
    answer = server.request("POST", "/v2/document", data=fields, files={"file": (name, "Tom sleeps.")})
    assert answer.status_code in (400, 404)
    assert answer.json()["message"].startswith(message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"source": "en", "target": "de"}, "q: "),
        ({"q": "Tom.", "target": "de"}, "source: "),
        ({"q": "Tom.", "source": "en"}, "target: "),
        ({"q": "Tom.", "source": "en", "target": "xx"}, "xx is not supported"),
        ({"q": "Tom.", "source": "de", "target": "en"}, "de is not supported"),
        ({"q": "Tom.", "source": "en", "target": "x" * 5000}, f"{'x' * 79}… is not supported"),
        ({"q": "Tom.", "source": "en", "target": "de", "format": "pdf"}, "pdf format is not supported"),
        ({"q": {"a": 1}, "source": "en", "target": "de"}, "q"),
        (["Tom."], "the body should be"),
    ],
)
def test_errors_of_libretranslate(server: RunningServer, body: Any, message: str) -> None:
    response = server.post("/translate", body)
    assert response.status_code == 400
    assert response.json()["error"].startswith(message)


def test_errors_of_deepl_and_deeplx(server: RunningServer) -> None:
    response = server.post("/v2/translate", {"text": ["Tom."]})
    assert response.status_code == 400
    assert response.json()["message"].startswith("target_lang")
    response = server.post("/translate", {"text": "Tom.", "target_lang": "xx"})
    assert (response.status_code, response.json()["code"]) == (400, 400)


def test_fifty_clients_do_not_see_each_other(server: RunningServer) -> None:
    """Each sends a document sentence by sentence, all at the same time; each gets what it would get alone."""
    documents = [list(document.source)[:3] for document in generate(50, 77)]

    def conversation(name: str, document: list[str]) -> list[str]:
        with requests.Session() as connection:
            body = {"source": "en", "target": "de", "session": name}
            answers = [
                connection.post(f"{server.url}/translate", json={**body, "q": sentence}, timeout=60)
                for sentence in document
            ]
        return [answer.json()["translatedText"] for answer in answers]

    with ThreadPoolExecutor(50) as pool:
        together = list(pool.map(conversation, [f"together {i}" for i in range(50)], documents))
    alone = [conversation(f"alone {i}", document) for i, document in enumerate(documents[:10])]
    assert together[:10] == alone
    without_context = [server.translated(sentences=document[-1:])[0] for document in documents[:10]]
    assert [answers[-1] for answers in alone] != without_context


def tags(text: str) -> list[str]:
    return sorted(re.findall("<[^>]*>", text))


def test_mark_up_and_placeholders_stay_whole(server: RunningServer) -> None:
    page = '<h1 class="a">Tom &amp; Anna</h1>\n<p>Where is <b>the <i>cat</i></b>?<br>It is old.</p><pre>not this</pre>'
    body = {"q": page, "source": "en", "target": "de", "format": "html", **session("page")}
    found = server.post("/translate", body).json()["translatedText"]
    assert tags(found) == tags(page)
    assert [element.tag for element in html.fromstring(found).iter()] == [e.tag for e in html.fromstring(page).iter()]
    assert "<pre>not this</pre>" in found
    messages = ["Hello {name}!", "%d files in %s", "%s", "[X6X] in [X12X]", "Visit https://example.org/a?b=1 now."]
    found = server.post("/translate", {**body, "q": messages, "format": "text"}).json()["translatedText"]
    assert found[2] == "%s"
    for message, translation in zip(messages, found, strict=True):
        assert sorted(placeholders(translation)) == sorted(placeholders(message))
    segment = 'The <g id="1">cat</g> is <x id="2"/>old.'
    asked = {"text": segment, "target_lang": "DE", "tag_handling": "xml", **session("segment")}
    (answer,) = server.post("/v2/translate", asked).json()["translations"]
    assert tags(answer["text"]) == tags(segment)
    weblate = {
        "text": ['Tom <x id="4"></x> sleeps <x id="9">%s stays</x>.'],
        "target_lang": "DE",
        "formality": "default",
    }
    (answer,) = server.post("/v2/translate", {**weblate, "tag_handling": "xml", "ignore_tags": ["x"]}).json()[
        "translations"
    ]
    assert tags(answer["text"]) == tags(weblate["text"][0])
    assert '<x id="9">%s stays</x>' in answer["text"]


def test_an_ignored_element_ends_at_its_tag_whatever_is_open_in_it() -> None:
    (sentence,) = read_text("Tom <x>and <x>all</x><br>others</x> sleeps.", "xml", "en", "de", ("x",)).sentences
    assert as_input(sentence).text.split() == ["Tom", "sleeps."]

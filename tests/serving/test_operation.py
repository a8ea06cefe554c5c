"""Health, metrics and the reference; what the server sends agrees with the reference."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import requests
from lxml import html
from prometheus_client.parser import text_string_to_metric_families

from focat.serving.reference import ENDPOINTS
from tests.serving.running import RunningServer

SENTENCES, TRANSLATIONS = ["Tom sleeps.", "He is old."], ["Tom schläft.", "Er ist alt."]
SRT = "1\n00:00:01,000 --> 00:00:02,000\nTom sleeps.\n"
TEXT = {"source": "en", "target": "de"}
REQUESTS: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("POST", "/v1/documents"): [
        {"json": {"sentences": SENTENCES, "nbest": 2, "translations": TRANSLATIONS[:1]}},
        {"json": {"text": "Tom sleeps. He is old.", "start": 1}},
    ],
    ("POST", "/v1/explain"): [{"json": {"sentences": SENTENCES, "translations": TRANSLATIONS, "index": 1}}],
    ("POST", "/v1/files"): [{"files": {"file": ("film.srt", SRT)}}],
    ("POST", "/v1/export"): [{"files": {"file": ("film.srt", SRT)}, "data": {"translations": '["Tom."]'}}],
    ("POST", "/translate"): [
        {"json": {"q": "Tom sleeps.", **TEXT}},
        {"json": {"q": SENTENCES, "source": "auto", "target": "de", "alternatives": 2}},
        {"data": {"q": "Tom sleeps.", **TEXT, "alternatives": "1"}},
        {"json": {"text": "Tom sleeps.", "source_lang": "en", "target_lang": "de"}},
    ],
    ("GET", "/translate"): [{"params": {"q": "Tom <f0>sleeps</f0>.", "langpair": "en_US|de"}}],
    ("POST", "/detect"): [{"data": {"q": "Tom sleeps."}}],
    ("POST", "/translate_file"): [{"files": {"file": ("film.srt", SRT)}, "data": TEXT}],
    ("POST", "/v2/translate"): [
        {"json": {"text": SENTENCES, "target_lang": "DE", "show_billed_characters": True}},
        {"data": {"text": SENTENCES, "target_lang": "DE"}},
    ],
    ("POST", "/v2/document"): [{"files": {"file": ("film.srt", SRT)}, "data": {"target_lang": "DE"}}],
    ("GET", "/v2/languages"): [{}, {"params": {"type": "target"}}],
}


@pytest.fixture(scope="module")
def reference(server: RunningServer) -> Any:
    found = server.request("GET", "/openapi.json").json()
    assert found == server.request("GET", "/spec").json()
    return found


@pytest.mark.parametrize(
    "endpoint", [e for e in ENDPOINTS if "{" not in e.path and e.method != "DELETE"], ids=lambda e: e.path
)
def test_answers_agree_with_the_reference(server: RunningServer, reference: Any, endpoint: Any) -> None:
    described = reference["paths"][endpoint.path][endpoint.method.lower()]
    schema = described["responses"]["200"].get("content", {}).get("application/json", {}).get("schema")
    for options in REQUESTS.get((endpoint.method, endpoint.path), [{}]):
        if "json" in options:
            body = described["requestBody"]["content"]["application/json"]["schema"]
            jsonschema.validate(options["json"], {**body, "components": reference["components"]})
        response = server.request(endpoint.method, endpoint.path, **options)
        assert response.status_code == 200, response.text
        if schema is not None:
            jsonschema.validate(response.json(), {**schema, "components": reference["components"]})


def test_every_path_is_in_the_reference(server: RunningServer, reference: Any) -> None:
    """Except those that lead to it, or from one of its answers."""
    paths = set(reference["paths"])
    assert paths == {endpoint.path for endpoint in ENDPOINTS}
    for path in paths:
        assert server.request("PATCH", path.replace("{id}", "x")).status_code == 405


def test_another_method_is_answered_with_those_that_there_are(server: RunningServer) -> None:
    """Also GET, which the files of the page would answer."""
    response = server.request("GET", "/v1/documents")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.json()["error"]["message"] == "GET is not possible here; use POST"
    response = server.request("GET", "/v1/document")
    assert (response.status_code, response.json()["error"]["message"]) == (404, "there is nothing at this address")


def test_a_field_that_is_unknown_or_missing_is_named(server: RunningServer) -> None:
    unknown = server.post("/v1/documents", {"sentence": SENTENCES}).json()["error"]
    assert unknown == {"message": "sentence: there is no such field; /docs lists them", "parameter": "sentence"}
    assert server.post("/translate", {"q": "Tom."}).json() == {"error": "source: is needed and not given"}


def test_the_page_of_the_reference(server: RunningServer) -> None:
    page = html.fromstring(server.request("GET", "/docs").text)
    summaries = [summary.text_content() for summary in page.findall(".//summary")]
    assert len(summaries) == len(ENDPOINTS)
    assert not page.xpath("//script | //style | //@style | //*[starts-with(@href, 'http')]")
    (style,) = page.xpath("//link/@href")
    assert server.request("GET", f"/{style}").headers["content-type"].startswith("text/css")


def test_health_and_metrics(server: RunningServer) -> None:
    assert server.request("GET", "/health").json() == server.request("GET", "/ready").json() == {"status": "ok"}

    def figures() -> dict[Any, float]:
        families = text_string_to_metric_families(server.request("GET", "/metrics").text)
        samples = [sample for family in families for sample in family.samples]
        return {(sample.name, json.dumps(sample.labels, sort_keys=True)): sample.value for sample in samples}

    before = figures()
    server.translated(sentences=SENTENCES)
    server.request("GET", "/nothing/here")
    after = figures()
    labels = json.dumps({"method": "POST", "path": "/v1/documents", "status": "200"}, sort_keys=True)
    for name, added in ((("focat_requests_total", labels), 1), (("focat_sentences_total", "{}"), 2)):
        assert after[name] == before.get(name, 0) + added
    assert after["focat_waiting_sentences", "{}"] == 0
    assert not any("nothing" in labels for _, labels in after)


def test_every_answer_has_the_headers_of_trust(server: RunningServer) -> None:
    for path in ("/health", "/docs", "/v1/nothing", "/nothing"):
        headers = requests.get(server.url + path, timeout=60).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"

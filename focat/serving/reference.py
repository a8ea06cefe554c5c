"""The reference of the APIs: an OpenAPI document made of the models of bodies and answers, and a page that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from focat._version import __version__
from focat.serving import answers
from focat.serving.deepl import DeepLBody
from focat.serving.deepl_documents import DeepLDocumentBody
from focat.serving.libretranslate import DeepLXBody, DetectBody, TranslateBody
from focat.serving.native import DocumentBody, ExplainBody

FOLDER = Path(__file__).parent / "templates"
_REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True)
class Endpoint:
    """What can be asked at one address."""

    group: str
    method: str
    path: str
    summary: str
    body: tuple[type[BaseModel], ...] = ()
    """Models of the body, any one of them."""
    answer: tuple[type[BaseModel], ...] = ()
    """Models of the answer; none if it is no JSON."""
    form: tuple[str, ...] = ()
    """Fields of a form with a file, instead of a body; `?` after those that may be missing."""
    parameters: tuple[str, ...] = ()
    """Parameters in the path or after the question mark."""
    json_only: bool = False
    """Whether the body must be JSON; if not, a form will do."""


_FILE = ("file", "source?", "target?", "format?", "split?")
ENDPOINTS = (
    Endpoint("Native", "GET", "/v1/models", "The runs that are served", answer=(answers.Models,)),
    Endpoint(
        "Native", "POST", "/v1/documents", "Translate a document", (DocumentBody,), (answers.DocumentAnswer,),
        json_only=True,
    ),
    Endpoint("Native", "DELETE", "/v1/documents/{id}", "Cancel a document", parameters=("id",)),
    Endpoint("Native", "DELETE", "/v1/memory", "Forget the last sentences of a client", parameters=("session?",)),
    Endpoint(
        "Native", "POST", "/v1/explain", "What mattered for a translation", (ExplainBody,), (answers.ExplainAnswer,),
        json_only=True,
    ),
    Endpoint("Native", "POST", "/v1/files", "The sentences of a file", answer=(answers.FileAnswer,), form=_FILE),
    Endpoint("Native", "POST", "/v1/export", "A file with translations", form=(*_FILE, "translations")),
    Endpoint(
        "LibreTranslate and DeepLX", "POST", "/translate", "Translate a text, or the texts of a document",
        (TranslateBody, DeepLXBody), (answers.LibreTranslateAnswer, answers.DeepLXAnswer),
    ),
    Endpoint(
        "LibreTranslate and DeepLX", "GET", "/languages", "The languages", answer=(answers.LibreTranslateLanguages,)
    ),
    Endpoint(
        "LibreTranslate and DeepLX", "POST", "/detect", "The language of a text", (DetectBody,), (answers.Detection,)
    ),
    Endpoint(
        "LibreTranslate and DeepLX", "POST", "/translate_file", "Translate a file", answer=(answers.TranslatedFile,),
        form=("file", "target", "source?", "format?", "split?", "api_key?"),
    ),
    Endpoint("DeepL", "POST", "/v2/translate", "Translate texts as one document", (DeepLBody,), (answers.DeepLAnswer,)),
    Endpoint(
        "DeepL", "POST", "/v2/document", "Begin to translate a file", answer=(answers.DeepLDocument,),
        form=("file", "target_lang", "source_lang?", "filename?", "output_format?", "formality?"),
    ),
    Endpoint(
        "DeepL", "POST", "/v2/document/{id}", "How far a document is", (DeepLDocumentBody,),
        (answers.DeepLDocumentStatus,), parameters=("id",),
    ),
    Endpoint(
        "DeepL", "POST", "/v2/document/{id}/result", "Fetch a translated document, once", (DeepLDocumentBody,),
        parameters=("id",),
    ),
    Endpoint(
        "DeepL", "GET", "/v2/languages", "Source languages, or target languages", answer=(answers.DeepLLanguages,),
        parameters=("type?",),
    ),
    Endpoint("DeepL", "GET", "/v2/usage", "Characters that were translated", answer=(answers.DeepLUsage,)),
    Endpoint(
        "DeepL", "GET", "/v2/glossary-language-pairs", "Pairs that have glossaries: none",
        answer=(answers.DeepLGlossaries,),
    ),
    Endpoint(
        "Apertium", "GET", "/translate", "Translate a segment", answer=(answers.ApertiumAnswer,),
        parameters=("q", "langpair", "key?", "session?"),
    ),
    Endpoint("Apertium", "GET", "/listPairs", "The language pairs", answer=(answers.ApertiumPairs,)),
    Endpoint("Operation", "GET", "/health", "Whether the server answers", answer=(answers.Status,)),
    Endpoint("Operation", "GET", "/ready", "Whether it takes on new requests", answer=(answers.Status,)),
    Endpoint("Operation", "GET", "/metrics", "Figures for Prometheus"),
)  # fmt: skip


def openapi() -> dict[str, Any]:
    """The OpenAPI document."""
    models = dict.fromkeys(model for endpoint in ENDPOINTS for model in (*endpoint.body, *endpoint.answer))
    _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "focat", "version": __version__, "description": "Translation that keeps context."},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def reference_page() -> str:
    """The same as a page to read."""
    environment = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    groups = {endpoint.group: [each for each in ENDPOINTS if each.group == endpoint.group] for endpoint in ENDPOINTS}
    schemas = openapi()["components"]["schemas"]
    return environment.get_template("reference.html").render(groups=groups, schemas=schemas, version=__version__)


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": endpoint.summary, "tags": [endpoint.group]}
    if endpoint.parameters:
        operation["parameters"] = [_parameter(name, endpoint.path) for name in endpoint.parameters]
    if endpoint.form:
        names = [name.removesuffix("?") for name in endpoint.form]
        texts = {name: {"type": "string"} for name in names} | {"file": {"type": "string", "format": "binary"}}
        schema = {"type": "object", "properties": texts, "required": [n for n in endpoint.form if not n.endswith("?")]}
        operation["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    elif endpoint.body:
        kinds = ["application/json", *([] if endpoint.json_only else ["application/x-www-form-urlencoded"])]
        content = {kind: {"schema": _any_of(endpoint.body)} for kind in kinds}
        operation["requestBody"] = {"required": True, "content": content}
    status = "204" if endpoint.method == "DELETE" else "200"
    answer: dict[str, Any] = {"description": "done"}
    if endpoint.answer:
        answer["content"] = {"application/json": {"schema": _any_of(endpoint.answer)}}
    operation["responses"] = {status: answer, "default": {"description": "an error, in the form of the API"}}
    return operation


def _parameter(name: str, path: str) -> dict[str, Any]:
    plain = name.removesuffix("?")
    in_path = f"{{{plain}}}" in path
    return {
        "name": plain,
        "in": "path" if in_path else "query",
        "required": in_path or plain == name,
        "schema": {"type": "string"},
    }


def _any_of(models: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    references = [{"$ref": _REFERENCE.format(model=model.__name__)} for model in models]
    return references[0] if len(references) == 1 else {"anyOf": references}

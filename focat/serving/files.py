"""Files of clients: read into sentences, and written with their translations. The server keeps none of them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from focat.api import Model
from focat.corpus.text_files import DECOMPRESSORS
from focat.errors import FocatError
from focat.serving.errors import ApiError
from focat.serving.service import ServedRun
from focat.translation.alignment import align_words
from focat.translation.formats import FileSegment, FormatOptions, InputLines, format_of, is_archive, read_segments
from focat.translation.outputs import segment_writer
from focat.translation.result import Translation, on_one_line
from focat.translation.sentence import Sentence, as_input


@dataclass(frozen=True)
class ClientFile:
    """A file that a client has sent."""

    name: str
    content: bytes
    format: str
    split: bool
    """Whether it is running text, to be split into sentences."""

    @property
    def suffix(self) -> str:
        """How its name ends, in small letters."""
        return Path(self.name).suffix.lower()

    def translated_name(self, target: str) -> str:
        """The name of its translation into a language."""
        path = PurePath(self.name or "file")
        return f"{path.stem}.{target}{path.suffix}"

    def segments(self, run: ServedRun) -> list[FileSegment]:
        """The segments of the file.

        Raises:
            ApiError: it cannot be read as a file of its format.
        """
        options = FormatOptions(split=self.split, languages=(run.source, run.target))
        with _on_disk(self.name, self.content) as path:
            return list(read_segments(InputLines(path), self.format, options))

    def shown_text(self, run: ServedRun) -> str:
        """Text by which its language can be found out; `run` is any.

        Raises:
            ApiError: it cannot be read as a file of its format.
        """
        if not is_archive(self.format):
            return self.content.decode("utf-8", "replace")
        return " ".join(as_input(sentence).text for sentence in text_of(self.segments(run)).sentences)


@dataclass(frozen=True)
class FileText:
    """The sentences of a file."""

    sentences: list[Sentence]
    breaks: list[int]
    """Sentences that begin another document."""

    @property
    def documents(self) -> list[list[Sentence]]:
        """The sentences of each document."""
        ends = [*self.breaks, len(self.sentences)]
        return [self.sentences[start:end] for start, end in zip([0, *self.breaks], ends, strict=True)]


def text_of(segments: Sequence[FileSegment]) -> FileText:
    """All sentences of a file, and where its documents begin."""
    sentences: list[Sentence] = []
    breaks: list[int] = []
    for segment in segments:
        sentences += segment.sentences
        if segment.ends_document:
            breaks.append(len(sentences))
    inner = sorted({i for i in breaks if 0 < i < len(sentences)})
    return FileText(sentences, inner)


def align_sentence(model: Model, sentence: Sentence, translation: str) -> Translation:
    """A translation as a file takes it: with an alignment of words where it has tags to put back around them."""
    given, translation, alignment = as_input(sentence), on_one_line(translation), None
    if given.align and translation:
        text = on_one_line(given.text)
        tokens = model.tokenizer.source.encode(text), model.tokenizer.target.encode(translation)
        alignment = align_words(model.models[0], model.tokenizer, text, translation, [tokens])
    return Translation(given.text, translation, alignment=alignment)


def written(file: ClientFile, segments: Sequence[FileSegment], translations: Sequence[Translation]) -> bytes:
    """The file with translations, one for each sentence of its segments."""
    remaining, content = iter(translations), io.BytesIO()
    writer = segment_writer(content, file.format, Path(file.name))
    for segment in segments:
        writer.write(segment, [next(remaining) for _ in segment.sentences])
    writer.finish()
    return content.getvalue()


def download(name: str, content: bytes) -> Response:
    """The answer that is a file of this name."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    headers = {"Content-Disposition": f'attachment; filename="{plain}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


async def read_form(request: Request) -> FormData:
    """The form of a request that has a file.

    Raises:
        ApiError: it is no form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise ApiError(400, "send the file as multipart/form-data, in the field file", "file")
    try:
        return await request.form(max_files=1, max_fields=100, max_part_size=len(await request.body()))
    except HTTPException as error:
        raise ApiError(400, f"the form cannot be read: {error.detail}") from None


async def file_of(form: FormData) -> ClientFile:
    """The file of a form; its name, that in the field `filename`, or the field `format` decides how it is read.

    Raises:
        ApiError: there is none, or no format reads it.
    """
    upload = form.get("file")
    if not isinstance(upload, UploadFile):
        raise ApiError(400, "file: is missing", "file")
    name = Path(text_field(form, "filename") or upload.filename or "").name
    if Path(name).suffix.lower() in DECOMPRESSORS:
        raise ApiError(400, "file: send it without compression", "file")
    try:
        format = text_field(form, "format") or format_of(Path(name))
    except FocatError as error:
        raise ApiError(400, str(error), "file") from None
    return ClientFile(name, await upload.read(), format, text_field(form, "split") in ("true", "1"))


def text_field(form: FormData, name: str) -> str | None:
    """A field of a form that is text; None if it is missing or empty."""
    value = form.get(name)
    if isinstance(value, UploadFile):
        raise ApiError(400, f"{name}: should be text", name)
    return value or None


@contextmanager
def _on_disk(name: str, content: bytes) -> Iterator[Path]:
    """The file in a folder of its own, for the time of the block; errors show the client's name for it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"file{''.join(c for c in Path(name).suffix if c.isalnum() or c == '.')}"
        path.write_bytes(content)
        try:
            yield path
        except FocatError as error:
            raise ApiError(400, str(error).replace(str(path), name or "file"), "file") from None

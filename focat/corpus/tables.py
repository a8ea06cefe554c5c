"""Corpora in tables: Parquet files, and datasets saved to disk by Hugging Face's `datasets` (Arrow files)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from focat.config.corpora import DatasetCorpus, ParquetCorpus, TableCorpus
from focat.corpus.document import Document
from focat.errors import FocatError
from focat.files import read_json_object

_ROWS = 1024  # read at a time
NamedPairs = tuple[object, list[tuple[str, str]]]
"""What joins a row to its neighbours, the name of its document; and its pairs."""


def table_files(corpus: ParquetCorpus | DatasetCorpus) -> list[Path]:
    """The files of a corpus, in order."""
    path = corpus.path
    if isinstance(corpus, ParquetCorpus):
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise FocatError(f"{path}: holds no .parquet file")
        return files
    if (path / "dataset_dict.json").is_file():
        splits = sorted(state.parent.name for state in path.glob("*/state.json"))
        example = path / splits[0] if splits else path
        raise FocatError(f"{path}: holds the splits {', '.join(splits)}; give the folder of one, as {example}")
    remedy = "give a folder that save_to_disk of datasets wrote"
    if not (path / "state.json").is_file():
        raise FocatError(f"{path}: has no state.json; {remedy}")
    try:
        listed = read_json_object(path / "state.json", remedy)["_data_files"]
        return [path / str(file["filename"]) for file in listed]
    except (KeyError, TypeError):
        raise FocatError(f"{path}/state.json: names no files of a dataset; {remedy}") from None


def read_table(
    corpus: ParquetCorpus | DatasetCorpus, languages: tuple[str, str], left_out: Counter[str]
) -> Iterator[Document]:
    """The documents of a table: rows of lists, or neighbouring rows; rows without a translation are left out."""
    arrow = _pyarrow()
    rows = (row for path in table_files(corpus) for row in _file_rows(arrow, corpus, path, languages, left_out))
    for (_, name), group in groupby(rows, key=itemgetter(0)):
        pairs = [pair for _, some in group for pair in some]
        if pairs:
            yield Document(name, [source for source, _ in pairs], [target for _, target in pairs])


def _file_rows(
    arrow: ModuleType,
    corpus: ParquetCorpus | DatasetCorpus,
    path: Path,
    languages: tuple[str, str],
    left_out: Counter[str],
) -> Iterator[tuple[tuple[object, str], list[tuple[str, str]]]]:
    """The pairs of each row, with the key that joins neighbouring rows and the name of their document."""
    number = 0
    columns: list[str] | None = None
    try:
        for schema, batch in _batches(arrow, corpus, path):
            if columns is None:
                columns = [
                    _column(corpus, schema, side, language, path)
                    for side, language in zip(("source", "target"), languages, strict=True)
                ]
                document = _document_column(corpus, schema, path, columns[0])
            values = [_values(batch, column) for column in (*columns, document) if column is not None]
            for source, target, *name in zip(*values, strict=True):
                number += 1
                where = f"{path}, row {number}"
                pairs = _pairs(source, target, where, left_out)
                if isinstance(source, list):
                    yield ((path, number), str(name[0]) if name else f"{path.name}:{number}"), pairs
                elif document is not None:
                    if name[0] is None:
                        raise FocatError(f"{where}: nothing in the column {document} that names its document")
                    yield (name[0], str(name[0])), pairs
                elif corpus.documents == "file":
                    yield (path, path.name), pairs
                else:
                    yield ((path, number), f"{path.name}:{number}"), pairs
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        kind = "Parquet" if isinstance(corpus, ParquetCorpus) else "Arrow"
        if isinstance(error, FileNotFoundError):
            raise FocatError(f"{path}: no such file") from None
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FocatError(f"{path}: not a whole {kind} file, or damaged after row {number:,} ({reason})") from None


def _batches(arrow: ModuleType, corpus: ParquetCorpus | DatasetCorpus, path: Path) -> Iterator[tuple[Any, Any]]:
    """Some rows at a time, with the schema of the table."""
    if isinstance(corpus, ParquetCorpus):
        from pyarrow import parquet

        with parquet.ParquetFile(path) as table:
            for batch in table.iter_batches(_ROWS):
                yield table.schema_arrow, batch
        return
    with arrow.memory_map(str(path)) as mapped, arrow.ipc.open_stream(mapped) as reader:
        for batch in reader:
            batch.validate(full=True)  # or offsets of a damaged file would lead outside of it, into any memory
            for start in range(0, batch.num_rows, _ROWS):
                yield reader.schema, batch.slice(start, _ROWS)


def _column(corpus: TableCorpus, schema: Any, side: str, language: str, path: Path) -> str:
    """The column of a side: the one that is named, or the first of the usual names that the table has."""
    given = corpus.source_column if side == "source" else corpus.target_column
    candidates = [given] if given else [f"translation.{language}", side, language]
    found = next((name for name in candidates if _has(schema, name)), None)
    if found is None:
        raise FocatError(
            f"{path}: no column {', '.join(candidates)}; it has {', '.join(schema.names)}: "
            f"set {side}_column of the corpus"
        )
    return found


def _document_column(corpus: TableCorpus, schema: Any, path: Path, source: str) -> str | None:
    """The column that names documents; None if rows or files are documents."""
    import pyarrow as arrow

    if corpus.documents in ("each", "file"):
        return None
    if corpus.documents is not None:
        if not _has(schema, corpus.documents):
            raise FocatError(
                f"{path}: no column {corpus.documents}, which documents of the corpus names; "
                f"it has {', '.join(schema.names)}"
            )
        return corpus.documents
    if _has(schema, "document"):
        return "document"
    kind = _type_of(schema, source)
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind):
        return None
    raise FocatError(
        f"{path}: nothing says what a document is; set documents of the corpus to a column "
        f"({', '.join(schema.names)}), to each row or to the file"
    )


def _type_of(schema: Any, name: str) -> Any:
    """The type of a column, or of a field of one; None if there is none of this name."""
    if name in schema.names:
        return schema.field(name).type
    column, _, field = name.partition(".")
    if field and column in schema.names:
        fields = getattr(schema.field(column).type, "fields", [])
        return next((each.type for each in fields if each.name == field), None)
    return None


def _has(schema: Any, name: str) -> bool:
    return _type_of(schema, name) is not None


def _values(batch: Any, name: str) -> Sequence[object]:
    if name in batch.schema.names:
        values: list[object] = batch.column(name).to_pylist()
        return values
    column, _, field = name.partition(".")
    return [None if row is None else row[field] for row in batch.column(column).to_pylist()]


def _pairs(source: object, target: object, where: str, left_out: Counter[str]) -> list[tuple[str, str]]:
    """The pairs of a row: one, or as many as its lists have sentences."""
    if isinstance(source, list) != isinstance(target, list) and source is not None and target is not None:
        raise FocatError(f"{where}: source and target must be both one sentence or both a list of sentences")
    sides = [side if isinstance(side, list) else [side] for side in (source, target)]
    if len(sides[0]) != len(sides[1]) and source is not None and target is not None:
        raise FocatError(f"{where}: unequal numbers of sentences: {len(sides[0])} and {len(sides[1])}")
    pairs = []
    for ours, theirs in zip(*sides, strict=False):
        if ours is None or theirs is None:
            left_out["untranslated"] += 1
            continue
        if not isinstance(ours, str) or not isinstance(theirs, str):
            raise FocatError(f"{where}: source and target hold something else than text")
        pairs.append((ours, theirs))
    return pairs


def _pyarrow() -> ModuleType:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise FocatError("the formats parquet and dataset need pyarrow: pip install 'focat[parquet]'") from None
    module: ModuleType = pyarrow
    return module

"""Any number of documents, translated and scored on a cluster with Ray Data (extra `ray`).

A document is a row of a dataset. Actors, each with a model of its own, take batches of documents; rows stream from the
input through the actors to the output, so neither has to fit into memory. When an actor dies, Ray starts it again and
repeats its batch. A translation does not depend on the other documents of its batch, except for floating-point noise,
so the lines are those of `focat translate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from focat.api import load
from focat.errors import FocatError, ParameterError
from focat.evaluation.document_scores import AlignedSentence
from focat.translation.arguments import sentences_of
from focat.translation.options import TranslateOptions

try:
    import pyarrow
    from pyarrow import types
    from ray.data import ActorPoolStrategy, Dataset
except ImportError:
    raise FocatError("focat.ray needs Ray: pip install 'focat[ray]'") from None

Runs = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Actors:
    """The actors that share the work; each has a model of its own."""

    number: int = 1
    cpus: int = 1
    """Cores of an actor, and so its threads."""
    gpus: float = 0
    """GPUs of an actor: 1, or a part of one that several actors share."""
    documents: int = 64
    """Documents of a batch: decoded together, and once more together if their actor dies."""

    def __post_init__(self) -> None:
        """Refuse numbers with which no work would be done."""
        for name in ("number", "cpus", "documents"):
            if getattr(self, name) < 1:
                raise ParameterError(f"actors.{name}", getattr(self, name), "should be at least 1")


ONE_ACTOR = Actors()


def translate_documents(
    dataset: Dataset,
    run: Runs,
    column: str = "sentences",
    output: str = "translations",
    *,
    actors: Actors = ONE_ACTOR,
    **options: Unpack[TranslateOptions],
) -> Dataset:
    """Translate the document in each row of a dataset, each sentence in its context, as `focat translate` does.

    Args:
        dataset: rows with a document each, a list of sentences.
        run: a run folder, or several for an ensemble, that every machine of the cluster can read.
        column: the column that has the document.
        output: the column to add: a translation for each sentence; null where the document is null.
        actors: how many there are, and what each gets.
        options: as of `focat.Model.translator`, but neither samples nor alternatives.

    Returns:
        Each row once, with its translations. As always with Ray Data, work begins when the result is read or written,
        and rows are in the order in which they are done, unless the `DataContext` asks to preserve theirs.

    Raises:
        FocatError: the columns are not as they should be, the run cannot be opened, or an option is wrong.
    """
    if options.get("sample"):
        raise ParameterError("sample", True, "a sample depends on the sentences before it; use focat translate")
    if options.get("nbest") not in (None, 1):
        raise ParameterError("nbest", options["nbest"], "only the best translations become a column")
    _check_columns(dataset, [column], [output])
    load(run, "cpu").translator(**options)  # a mistake is found here, rather than by every actor
    return _map_documents(dataset, _Translate, actors, run, column=column, output=output, options=options)


def score_documents(
    dataset: Dataset,
    run: Runs,
    source: str = "sentences",
    target: str = "translations",
    *,
    actors: Actors = ONE_ACTOR,
    window: int | None = None,
) -> Dataset:
    """Score the translation of the document in each row, each sentence after its context, as `focat score` does.

    Args:
        dataset: rows with a document and its translation each, two lists of as many sentences.
        run: as of `translate_documents`.
        source: the column that has the document.
        target: the column that has its translation.
        actors: how many there are, and what each gets.
        window: sentences in a window; as in training if not given.

    Returns:
        Each row once, with two more columns that have a number for each sentence: `log_probabilities`, and `tokens`,
        how many tokens its translation has. Null where the document or its translation is null.

    Raises:
        FocatError: the columns are not as they should be, or the run cannot be opened.
    """
    _check_columns(dataset, [source, target], ["log_probabilities", "tokens"])
    load(run, "cpu").system.windows(window)
    return _map_documents(dataset, _Score, actors, run, source=source, target=target, window=window)


class _Translate:
    """An actor that translates."""

    def __init__(self, run: Runs, column: str, output: str, options: TranslateOptions) -> None:
        self.translator = load(run).translator(**options)
        self.column, self.output = column, output

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        documents = _documents(batch, self.column)
        found = self.translator.translate(document for document in documents if document is not None)
        texts = [None if document is None else [best.text for best in next(found)] for document in documents]
        return batch.append_column(self.output, pyarrow.array(texts, pyarrow.list_(pyarrow.string())))


class _Score:
    """An actor that scores."""

    def __init__(self, run: Runs, source: str, target: str, window: int | None) -> None:
        self.model = load(run)
        self.source, self.target, self.window = source, target, window

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        rows = list(zip(_documents(batch, self.source), _documents(batch, self.target), strict=True))
        pairs = [self._pairs(*row) for row in rows]
        found = iter(self.model.score_pairs([document for document in pairs if document is not None], self.window))
        scored = [None if document is None else next(found) for document in pairs]
        scores = [None if document is None else [each.log_probability for each in document] for document in scored]
        tokens = [None if document is None else [len(each.tokens) for each in document] for document in scored]
        batch = batch.append_column("log_probabilities", pyarrow.array(scores, pyarrow.list_(pyarrow.float64())))
        return batch.append_column("tokens", pyarrow.array(tokens, pyarrow.list_(pyarrow.int64())))

    def _pairs(self, source: list[str] | None, target: list[str] | None) -> list[AlignedSentence] | None:
        if source is None or target is None:
            return None
        if len(source) != len(target):
            raise FocatError(
                f"{self.target}: a row has {len(target)} translations of {len(source)} {self.source}; give one for each"
            )
        return [AlignedSentence(*pair, i + 1) for i, pair in enumerate(zip(source, target, strict=True))]


def _documents(batch: pyarrow.Table, column: str) -> list[list[str] | None]:
    """The documents of a batch."""
    rows = batch[column].to_pylist()
    return [None if document is None else sentences_of(column, document) for document in rows]


def _check_columns(dataset: Dataset, needed: Sequence[str], added: Sequence[str]) -> None:
    schema = dataset.schema()
    columns = dict(zip(schema.names, schema.types, strict=True)) if schema else {}
    for name in needed:
        if name not in columns:
            raise FocatError(f"the dataset has no column {name}; its columns: {', '.join(columns) or 'none'}")
        if not _has_sentences(columns[name]):
            raise FocatError(f"column {name} holds {columns[name]}; it should hold documents, lists of sentences")
    for name in added:
        if name in columns:
            raise FocatError(f"the dataset has a column {name} already; drop or rename it")


def _has_sentences(kind: Any) -> bool:
    """Whether a type of Arrow is a list of strings, or may be one."""
    if types.is_list(kind) or types.is_large_list(kind):
        kind = kind.value_type
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind))
    return bool(types.is_null(kind))


def _map_documents(dataset: Dataset, actor: type, actors: Actors, run: Runs, **arguments: object) -> Dataset:
    """Let actors map batches of documents. A batch is a block of its own, and so what an actor that dies has lost."""
    runs = [run] if isinstance(run, str | Path) else run
    arguments["run"] = [Path(each).absolute() for each in runs]  # actors work in other folders
    return dataset.repartition(target_num_rows_per_block=actors.documents, strict=True).map_batches(
        actor,
        fn_constructor_kwargs=arguments,
        batch_size=actors.documents,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(size=actors.number),
        num_cpus=actors.cpus,
        num_gpus=actors.gpus or None,
        udf_modifying_row_count=False,
    )

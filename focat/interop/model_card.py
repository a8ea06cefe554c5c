"""The model card of an exported run: README.md with languages, data, figures and how to translate documents with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from focat._version import __version__
from focat.choices import ExportFormat
from focat.config import Settings
from focat.errors import FocatError
from focat.evaluation.results import EVALUATION_KIND, ContrastResults, EvaluationResults, validated_result
from focat.interop.snippets import snippet
from focat.interop.tokens import source_prefix
from focat.run import Run


def model_card(run: Run, to: ExportFormat, longest: int, results: Sequence[Path] = ()) -> str:
    """The text of README.md.

    Args:
        longest: most tokens of a window that the exported model takes.
        results: files of `focat contrast --json` and `focat evaluate --json`.

    Raises:
        FocatError: a file holds no such results.
    """
    settings = run.settings
    source, target = settings.data.source_language, settings.data.target_language
    library = {"hf": "transformers", "ct2": "ctranslate2"}[to]
    parts = [
        f"---\nlanguage:\n- {source}\n- {target}\nlibrary_name: {library}\npipeline_tag: translation\n"
        "tags:\n- translation\n- document-level\n- focat\n---",
        f"# Translation from {source} to {target}",
        _about(settings),
        "## How to translate a document",
        _window(settings),
        _code(run, to, longest),
        "## Training data",
        _data(settings),
        "## Figures",
        _figures(results),
        f"Exported by focat {__version__}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(settings: Settings) -> str:
    windows = settings.windows
    if windows.size == 1:
        return "This model translates one sentence at a time."
    after = f" and {windows.after} after it" if windows.after else ""
    return (
        f"This model translates a sentence together with its context: windows of up to {windows.size} consecutive "
        f"sentences of a document, {windows.before} before the current one{after}, joined by the token `<S>`. It was "
        "trained with focat, by focused concatenation (Lupo, Dinarelli and Besacier, 2022)."
    )


def _window(settings: Settings) -> str:
    windows = settings.windows
    if windows.size == 1:
        return "Give it one sentence at a time."
    before, after = windows.target
    text = (
        "The source is a window, `x1<S>x2<S>x3`, closed by `</s>`. The translation is a window of "
        f"{before + 1 + after} sentences or fewer, `y1<S>y2<S>y3</s>`. What follows the last `<S>` is the "
        "translation of the current sentence."
    )
    if windows.after:
        return text + f" Here, the last {windows.after} sentences of the source are context too."
    return text


def _code(run: Run, to: ExportFormat, longest: int) -> str:
    windows = run.settings.windows
    if windows.after:
        return "`focat translate` does this for the run that this model was exported from."
    python = snippet(run.settings, to, longest, source_prefix(run.tokenizer))
    code = f"`FOLDER` is the folder of this file.\n\n```python\n{python}```"
    if windows.size == 1:
        return code
    return code + (
        f"\n\nA window should have no more than {windows.max_tokens} tokens on either side: leave out the sentences "
        "that are farthest from the current one."
    )


def _data(settings: Settings) -> str:
    lines = []
    for corpus in settings.data.train:
        named = [f"`{value.name}`" for value in corpus.__dict__.values() if isinstance(value, Path)]
        lines.append(f"- {' and '.join(named)} (format `{corpus.format}`)" if named else "- the corpus focat generates")
    start = settings.training.init_from
    if start is not None:
        lines.append(f"- before that, the corpora of the model that training started from: `{start.name}`")
    return "\n".join(lines) or "Not recorded: the model was imported into focat."


def _figures(results: Sequence[Path]) -> str:
    rows = [row for path in results for row in _rows(path)]
    if not rows:
        return "None were given to `focat export`."
    return "\n".join(["| test | figure | 95 % interval | signature |", "|---|---|---|---|", *rows])


def _rows(path: Path) -> list[str]:
    """Rows of the table of figures."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FocatError(f"{path}: cannot be read as JSON ({error})") from None
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind == "contrast":
        contrast = validated_result(ContrastResults, content, str(path), "focat contrast --json")
        return [
            _row(f"{section.title}: {figure.name}", figure.accuracy, figure.low, figure.high, section.signature)
            for section in contrast.sections
            for figure in section.figures
        ]
    if kind == EVALUATION_KIND:
        evaluation = validated_result(EvaluationResults, content, str(path), "focat evaluate --json")
        return [_row(figure.name, figure.score, *figure.interval, figure.signature) for figure in evaluation.figures]
    raise FocatError(f"{path}: holds no figures; give a file of `focat contrast --json` or `focat evaluate --json`")


def _row(name: str, value: float, low: float, high: float, signature: str) -> str:
    escaped = signature.replace("|", "\\|")
    return f"| {name} | {value:.1f} | {low:.1f}–{high:.1f} | `{escaped}` |"

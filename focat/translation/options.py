"""Keyword options of everything that translates, typed, so that a user's type checker knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from focat.choices import Formality, TargetContext
from focat.config.schema import SearchOptions

if TYPE_CHECKING:  # the readers of all formats come with it, and a translator needs none
    from focat.translation.formats.segments import SubtitleOptions

GlossaryInput = str | Path | Mapping[str, str | Sequence[str]]
KeepInput = str | Path | Sequence[str]


class TranslateOptions(SearchOptions, total=False):
    """Options of `focat.Model.translate`; None keeps the setting of the run."""

    context: TargetContext | None
    """Where target context comes from."""
    constrained: bool
    """Every window yields as many sentences as it has; if not, what follows the last `<S>` is kept (the paper)."""
    window: int | None
    """Sentences in a window."""
    formality: Formality | None
    """Form of address, formal or informal, of a model that was trained with `data.formality`."""
    lookahead: int | None
    """Sentences that may be read before the first translation is returned; 1 returns each at once."""
    glossary: GlossaryInput | None
    """Translations of terms: a file (`source<TAB>target`), or a dictionary of one or several forms by source."""
    keep: KeepInput | None
    """Terms that stay as they are: a file, one on each line, or a list."""


class FileOptions(TranslateOptions, total=False):
    """Options of `focat.Model.translate_file` and `translate_files`, besides those of `translate`."""

    format: str | None
    """As text, srt or docx (`focat.translation.formats.FORMATS`); by the name of the input if not given."""
    split: bool
    """The input is running text, to be split into sentences."""
    scores: bool
    """Write the score of each translation."""
    overwrite: bool
    """Replace outputs that exist, and fields of JSON lines that have the name of an added one."""
    encoding: str | None
    """Of the input; found out if not given."""
    output_encoding: str
    """Of the output; UTF-8 if not given."""
    all_entries: bool
    """Replace translations that a PO or XLIFF file has already, too."""
    subtitles: SubtitleOptions
    """Length of lines and the like, if the file has subtitles."""

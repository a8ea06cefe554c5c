"""Commands about settings and corpora: config, prepare, inspect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from focat.cli import options as opt
from focat.printing import print_line


def config_command(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG", help="Settings file (YAML); the defaults if not given.")
    ] = None,
    overrides: opt.Overrides = None,
    schema: Annotated[bool, opt.flag("--schema", "Write a JSON schema of settings files, for editors.")] = (False),
    reference: Annotated[bool, opt.flag("--reference", "Write about every setting, as Markdown.")] = False,
) -> None:
    """Show the settings that a file and overrides amount to, or the schema of all settings."""
    from focat.config import Settings, dump_settings, load_settings
    from focat.config.loading import settings_schema
    from focat.config.reference import settings_reference

    if reference:
        print(settings_reference(), end="")
    elif schema:
        print(json.dumps(settings_schema(), indent=2, ensure_ascii=False))
    else:
        print(dump_settings(load_settings(config, overrides or ()) if config else Settings()), end="")


def prepare_command(
    config: opt.ConfigFile,
    overrides: opt.Overrides = None,
    overwrite: opt.Overwrite = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """Make a token store: read and clean the corpora, train the tokenizer, encode everything."""
    from focat.config import load_settings
    from focat.corpus.prepare import prepare
    from focat.corpus.store import counts_line

    settings = load_settings(config, overrides or ()).data
    manifest = prepare(settings, opt.progress_shown(quiet), overwrite)
    for name in ("source_language", "target_language"):
        if name not in settings.model_fields_set:
            print_line(f"data.{name} is not set: {manifest[name]} is taken")
    for name, split in manifest["splits"].items():
        print_line(f"{name}: {counts_line(split)}")
    print_line(f"next: focat inspect {settings.store}")
    opt.write_figures(json_file, manifest)


def inspect_command(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder that `focat prepare` filled.")],
    split: Annotated[str, typer.Option(help="Which split to look into.")] = "train",
    windows: Annotated[int, typer.Option(min=0, help="How many windows to show.")] = 3,
    before: Annotated[int, typer.Option(min=0, help="Context sentences in front of the current one.")] = 3,
    after: Annotated[int, typer.Option(min=0, help="Context sentences behind the current one.")] = 0,
    svg: Annotated[Path | None, opt.file("Also write the windows as a picture.")] = None,
    overwrite: opt.Overwrite = False,
    json_file: opt.JsonFile = None,
) -> None:
    """Look into a token store: counts, lengths, suspicious pairs, and windows coloured by segment."""
    from focat.analysis.inspection import inspect_split
    from focat.config.schema import WindowSettings
    from focat.corpus.store import Store
    from focat.reporting.terminal.inspection import draw_windows, show_inspection

    opt.check_second_file(svg, json_file, overwrite)
    found = inspect_split(Store(store), split, WindowSettings(before=before, after=after), windows)
    show_inspection(found)
    if svg is not None:
        draw_windows(found, svg)
    opt.write_figures(json_file, found.results.to_json())

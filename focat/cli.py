"""The command line: one thin sub-command per workflow. All imports of substance wait until a command runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from focat import __version__
from focat.errors import FocatError

app = typer.Typer(
    name="focat",
    help="Context-aware machine translation by focused concatenation: prepare, train, measure, translate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigFile = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="Settings file (YAML), or a recipe such as focat:s4to4.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings to override, as in windows.before=3."),
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the figures to a file, as JSON."),
]


def main() -> None:
    """Run a command; what a user can mend is one line and exit code 2."""
    try:
        app()
    except FocatError as error:
        print(f"focat: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has had enough
        sys.stderr.close()
        sys.exit(0)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"focat {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = (
        False
    ),
) -> None:
    pass


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where to keep the corpus and the runs.")] = Path("demo"),
    overrides: Overrides = None,
    json_file: JsonFile = None,
) -> None:
    """See it work: prepare, train and measure two tiny systems on a generated corpus, in minutes on two cores."""
    from rich.console import Console

    from focat.demo import run_demo
    from focat.progress import Progress

    _write_json(json_file, run_demo(folder, overrides or [], Progress(), Console(highlight=False)))


@app.command()
def config(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="[CONFIG]", help="Settings file (YAML); the defaults if not given."),
    ] = None,
    overrides: Overrides = None,
    schema: Annotated[bool, typer.Option("--schema", help="Write a JSON schema of settings files, for editors.")] = (
        False
    ),
) -> None:
    """Show the settings that a file and overrides amount to, or the schema of all settings."""
    from focat.config import Settings, dump_settings, load_settings
    from focat.config.loading import settings_schema

    if schema:
        print(json.dumps(settings_schema(), indent=2, ensure_ascii=False))
    else:
        print(dump_settings(load_settings(config, overrides or ()) if config else Settings()), end="")


@app.command()
def prepare(
    config: ConfigFile,
    overrides: Overrides = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a store made from other settings.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Make a token store: read and clean the corpora, train the tokenizer, encode everything."""
    from focat.config import load_settings
    from focat.corpus.prepare import prepare
    from focat.corpus.store import counts_line
    from focat.progress import Progress

    settings = load_settings(config, overrides or ()).data
    manifest = prepare(settings, Progress(), overwrite)
    for name, split in manifest["splits"].items():
        print(f"{name}: {counts_line(split)}")
    print(f"next: focat inspect {settings.store}")
    _write_json(json_file, manifest)


@app.command()
def inspect(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder that `focat prepare` filled.")],
    split: Annotated[str, typer.Option(help="Which split to look into.")] = "train",
    windows: Annotated[int, typer.Option(min=0, help="How many windows to show.")] = 3,
    before: Annotated[int, typer.Option(min=0, help="Context sentences in front of the current one.")] = 3,
    after: Annotated[int, typer.Option(min=0, help="Context sentences behind the current one.")] = 0,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the windows as a picture.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Look into a token store: counts, lengths, suspicious pairs, and windows coloured by segment."""
    from focat.config.schema import WindowSettings
    from focat.corpus.store import Store
    from focat.windows.inspect import draw_windows, inspect_split, show_inspection

    found = inspect_split(Store(store), split, WindowSettings(before=before, after=after), windows)
    show_inspection(found)
    if svg is not None:
        draw_windows(found, svg)
    _write_json(json_file, found.figures)


@app.command()
def train(config: ConfigFile, overrides: Overrides = None, json_file: JsonFile = None) -> None:
    """Train a system, or go on with training; `torchrun … -m focat train …` uses many GPUs."""
    from dataclasses import asdict

    from focat.config import load_settings
    from focat.progress import Progress
    from focat.training.trainer import Interrupted, train

    progress = Progress()
    try:
        state = train(load_settings(config, overrides or ()), progress)
    except Interrupted as stopped:
        progress.say(str(stopped))
        raise typer.Exit(stopped.exit_code) from None
    _write_json(json_file, asdict(state))


@app.command()
def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that `focat train` made.")],
    count: Annotated[int, typer.Option(min=1, help="How many checkpoints to average.")] = 5,
    rule: Annotated[
        str, typer.Option(help="closest: those nearest to the best (the paper); next: the best and those after it.")
    ] = "closest",
) -> None:
    """Average the weights of checkpoints around the best one."""
    from focat.training.averaging import average, parse_rule
    from focat.training.run import Run

    chosen = average(Run.open(run), count, parse_rule(rule))
    print(f"{run}/averaged: the mean of {len(chosen)} checkpoints: {', '.join(map(str, chosen))}")


def _write_json(path: Path | None, content: Any) -> None:
    if path is not None:
        from focat.files import write_json

        write_json(path, content)

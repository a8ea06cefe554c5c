"""The command line: one thin function per command; what a command needs is imported when it runs."""

from __future__ import annotations

import difflib
import errno
import gc
import os
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from focat._version import __version__
from focat.cli import analyse, data, experiments, interop, measure, quality, serve, system, training, translate
from focat.cli.help import Command, Group
from focat.errors import FocatError, ParameterError
from focat.hardware import limit_spinning
from focat.printing import abridged, discard_output, print_line

app = typer.Typer(
    name="focat",
    cls=Group,
    help="Context-aware machine translation by focused concatenation: prepare, train, measure, translate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_OBJECTS_BETWEEN_COLLECTIONS = 10_000  # Python's own choice is 700
_COMPLETION = "_FOCAT_COMPLETE"  # the variable of the script that --install-completion writes
_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {  # by what they are for, as the help shows them
    "Begin": {
        "demo": experiments.demo_command,
        "doctor": system.doctor_command,
    },
    "Train": {
        "config": data.config_command,
        "prepare": data.prepare_command,
        "inspect": data.inspect_command,
        "train": training.train_command,
        "average": training.average_command,
    },
    "Translate": {
        "translate": translate.translate_command,
        "serve": serve.serve_command,
    },
    "Measure": {
        "contrast": measure.contrast_command,
        "score": measure.score_command,
        "evaluate": quality.evaluate_command,
        "compare": quality.compare_command,
        "analyse": analyse.analyse_command,
    },
    "Write a paper": {
        "reproduce": experiments.reproduce_command,
        "report": experiments.report_command,
    },
    "Models of other toolkits": {
        "import": interop.import_command,
        "export": interop.export_command,
    },
}
for _purpose, _commands in _COMMANDS.items():
    for _name, _function in _commands.items():
        app.command(_name, cls=Command, rich_help_panel=_purpose)(_function)


def main() -> None:
    """Run a command. What a user can mend is one line on standard error and exit code 2."""
    if _COMPLETION in os.environ:  # a shell asks what may come next
        app(prog_name="focat")
    limit_spinning()  # before a command imports PyTorch
    # By default, garbage is looked for so often that it takes a seventh of the time of imports and of reading suites.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    command = typer.main.get_command(app)
    options: dict[str, str] = {}  # the options of the command that runs, by parameter
    try:
        with command.make_context("focat", sys.argv[1:]) as context:
            options = _options_of(command, sys.argv[1:2])
            command.invoke(context)
        sys.exit(0)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except ParameterError as error:
        _print_error(error.with_name(options.get(error.parameter)))
        sys.exit(2)
    except FocatError as error:
        _print_error(_with_flags(str(error), options))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has closed it, as `| head` does
        for stream in filter(None, (sys.stdout, sys.stderr)):
            discard_output(stream)  # or the interpreter would flush into the closed pipe at exit
        sys.exit(0)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        _print_error(f"{error.filename}: a name that long cannot be a file; check it")
        sys.exit(2)
    except Exception as error:
        if not hasattr(error, "format_message"):  # errors of typer about arguments have it
            raise
        _usage_error(error)


def _print_error(message: str) -> None:
    """Print a line about an error."""
    print_line(f"focat: {abridged(message)}", sys.stderr)


def _with_flags(message: str, options: dict[str, str]) -> str:
    """Name options as the command line does where a message says what to give: --context-source for context_source."""
    names = "|".join(name for name in options if "_" in name)
    if not names:
        return message
    return re.sub(rf"(?<![\w./-])({names})(?=[,;) ]|$)(?! =)", lambda found: options[found[0]], message)


def _options_of(command: Any, arguments: list[str]) -> dict[str, str]:
    """The longest flag of each parameter of the sub-command that is called."""
    called = command.commands.get(arguments[0]) if arguments else None
    flags = {p.name: [flag for flag in p.opts if flag.startswith("--")] for p in called.params} if called else {}
    return {name: max(choices, key=len) for name, choices in flags.items() if choices}


def _usage_error(error: Any) -> NoReturn:
    """One line about wrong arguments; for a command without any, its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        context = getattr(error, "ctx", None)
        message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
        option = getattr(error, "option_name", "")
        possible = getattr(error, "possibilities", None) or ()
        near = difflib.get_close_matches(option, possible, n=1, cutoff=0)  # typer names several
        message = message.partition(" (Possible options")[0] + "".join(f"; did you mean {name}?" for name in near)
        message = message.replace(". Did you mean", "; did you mean")
        setting = re.fullmatch(r"--([a-z]+(\.[a-z0-9_]+)+)(=.*)?", option)
        if setting is not None:  # typer gives it without what follows the equals sign
            message += f"; a setting has no dashes: {setting[1]}=VALUE"
        elif context is not None and not message.endswith("?"):
            message += f"; see `{context.command_path} --help`"
        _print_error(message)
    sys.exit(error.exit_code)


def _version(wanted: bool) -> None:
    if wanted:
        print_line(f"focat {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = (
        False
    ),
) -> None:
    pass

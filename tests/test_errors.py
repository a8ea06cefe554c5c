"""How errors about parameters read, from Python and on the command line."""

from focat.errors import FocatError, ParameterError


def test_a_parameter_is_named_as_python_or_the_command_line_knows_it() -> None:
    error = ParameterError("window", 9, "ask for less")
    assert isinstance(error, FocatError)
    assert str(error) == "window = 9: ask for less"
    assert error.with_name("--window") == "--window 9: ask for less"
    assert error.with_name(None) == str(error)
    assert (
        ParameterError("split", True, "leave it out").with_name("--split") == "--split: leave it out"
    )  # it has no value

"""The one exception for what a user can mend: a single clear line, shown without a traceback, exit code 2."""


class FocatError(Exception):
    """Says what was found, where, and what to do about it, in one line."""

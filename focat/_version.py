"""The version of focat, in one place: the build and every signature read it here."""

__version__ = "0.2.0"

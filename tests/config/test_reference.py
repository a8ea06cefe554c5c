"""The settings reference is made from the schema, and the page in the docs is what it makes."""

from pathlib import Path

from focat.config import Settings
from focat.config.reference import settings_reference

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_every_setting_is_on_the_page():
    page = settings_reference()
    for section in ("windows", "model", "objective", "training", "decoding"):
        fields = type(getattr(Settings(), section)).model_fields
        missing = [name for name in fields if f"| `{section}.{name}` |" not in page]
        assert not missing, section


def test_a_row_says_kind_default_and_meaning():
    assert "| `windows.before` | whole number ≥ 0 | `3` | Sentences in front of the current one" in settings_reference()


def test_every_kind_of_corpus_is_told_once():
    page = settings_reference()
    for kind in ("text", "ids", "tsv", "jsonl", "wit3", "fragments", "generated"):
        assert page.count(f", format: {kind}\n") == 1


def test_the_docs_are_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == settings_reference(), "focat config --reference > docs/settings.md"

"""The page of `focat serve` in a real Chromium, with a real server and a model that nobody has trained.

Random weights depend on context as trained ones do, so a correction changes what follows it.
"""

from __future__ import annotations

import io
import json
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docx
import pytest

from tests.serving.browser import Browser, chromium, drop
from tests.serving.running import RunningServer
from tests.training.launcher import Launcher
from tests.translation.tiny import tiny_run

TEXT = "Tom needs it. It is old.\n\nWhere is the boat? Do you see it? The boat is red."
SENTENCES = ["Tom needs it.", "It is old.", "Where is the boat?", "Do you see it?", "The boat is red."]
CORRECTION = "Boot"
BEFORE = 2  # sentences of context in a window
SRT = """1
00:00:01,000 --> 00:00:02,000
Where is the cat?

2
00:00:02,500 --> 00:00:04,000 X1:100
It is old.
"""


@contextmanager
def served(launcher: Launcher, folder: Path, *arguments: object) -> Iterator[str]:
    """The address of `focat serve`, for the time of the block."""
    command = launcher.start(["serve", *map(str, arguments), "--port", "0"], folder)
    late = time.monotonic() + 60
    while not (found := re.search(r"http://\S+", command.output)):
        assert command.running(), command.output
        assert time.monotonic() < late, command.output
        time.sleep(0.02)
    yield found[0]
    command.send(signal.SIGTERM)
    command.wait(30)
    assert "Traceback" not in command.output


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(chrome: Browser) -> Iterator[Browser]:
    """What goes wrong in the pages that a test opens makes it fail."""
    chrome.wrong.clear()
    yield chrome
    chrome.close()
    assert not chrome.wrong


def translated_again(
    server: RunningServer, texts: Sequence[str | None], pending: set[int], fixed: set[int]
) -> list[str]:
    """Translations of SENTENCES once those that are pending, and those after a new one, are translated again.

    Text is tokenised again when it becomes context, so requests have to be those of the page: as many pending sentences
    as follow each other.
    """
    found = list(texts)
    while pending:
        start = end = min(pending)
        while end in pending:
            end += 1
        first = max(0, start - BEFORE)
        context = found[first:start]
        body = {"sentences": SENTENCES[first:end], "translations": context, "start": len(context)}
        for sentence in server.post("/v1/documents", body).json()["sentences"]:
            index = first + sentence["index"]
            pending.discard(index)
            if sentence["translation"] != found[index]:
                found[index] = sentence["translation"]
                pending |= set(range(index + 1, min(index + 1 + BEFORE, len(SENTENCES)))) - fixed
    return [text or "" for text in found]


def translate(page: Any, text: str = TEXT) -> None:
    """Type a text and have it translated."""
    page.get_by_label("Translate a document").fill(text)
    page.get_by_role("button", name="Translate").click()
    wait_until_translated(page)


def wait_until_translated(page: Any) -> None:
    page.locator(".row").first.wait_for()
    page.locator(".row.pending").first.wait_for(state="detached")
    page.get_by_role("button", name="Stop").wait_for(state="hidden")


def shown(page: Any) -> list[str]:
    """The translations on the page."""
    return page.locator(".row .text").all_inner_texts()


def exported(page: Any, format: str) -> tuple[str, str]:
    """Name and content of the file that an entry of the menu saves."""
    name, content = exported_bytes(page, format)
    return name, content.decode()


def exported_bytes(page: Any, format: str) -> tuple[str, bytes]:
    """The same of a file that is no text."""
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=format, exact=True).click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def test_a_text_is_translated_explained_corrected_and_exported(browser: Browser, server: RunningServer) -> None:
    page = browser.open(server.url)
    translate(page)
    before = translated_again(server, [None] * 5, set(range(5)), set())
    assert page.locator(".row .source").all_inner_texts() == SENTENCES
    assert shown(page) == before
    assert page.locator(".row.starts .source").all_inner_texts() == [SENTENCES[2]]  # after the blank line

    page.locator(".row").nth(3).click()
    page.locator(".mattered li").nth(1).wait_for()
    body = {"sentences": SENTENCES, "translations": before, "index": 3}
    explained = server.post("/v1/explain", body).json()
    assert page.locator(".alone").inner_text() == explained["alone"]
    words = page.locator(".mattered li").nth(1).locator(".target .word")
    assert words.all_inner_texts() == explained["words"]["target"][1]
    shades = words.evaluate_all("all => all.map(word => Number(word.style.getPropertyValue('--share')))")
    shares = explained["attention"]["target"][1]
    assert shades.index(max(shades)) == shares.index(max(shares))
    assert page.locator(".contribution").count() == len(explained["contributions"]) == 2  # windows of three

    page.locator(".row").nth(0).click()
    page.get_by_role("button", name="Correct").click()
    page.get_by_label("Translation of sentence 1").fill(CORRECTION)
    page.get_by_role("button", name="Save").click()
    wait_until_translated(page)
    after = translated_again(server, [CORRECTION, *before[1:]], {1, 2}, {0})
    assert shown(page) == after
    assert after[1] != before[1]
    assert page.locator(".row").nth(1).locator(".before").inner_text() == f"was {before[1]}"
    changed = sum(one != other for one, other in zip(before[1:], after[1:], strict=True))
    assert page.locator("#progress").inner_text() == f"5 sentences, 1 corrected, {changed} changed"
    assert page.get_by_role("status").inner_text() == f"{changed} sentence{'s' * (changed > 1)} changed."

    assert exported(page, "Text") == ("Untitled.de.txt", "{} {}\n\n{} {} {}".format(*after))
    name, content = exported(page, "JSON")
    assert name == "Untitled.de.json"
    assert [each["translation"] for each in json.loads(content)["sentences"]] == after
    assert [each["corrected"] for each in json.loads(content)["sentences"]] == [True, False, False, False, False]

    page.get_by_role("button", name="Undo").click()
    wait_until_translated(page)
    assert shown(page) == translated_again(server, after, {0}, set())
    assert shown(page)[0] == before[0]


def test_the_keyboard_is_enough(browser: Browser, server: RunningServer) -> None:
    page = browser.open(server.url)
    page.locator("#pair", has_text="German").wait_for()  # the server has said what it translates
    press = page.keyboard.press
    page.keyboard.type("Tom needs it. It is old.")  # the text has the focus
    press("Control+Enter")
    wait_until_translated(page)
    before = shown(page)
    for key, number in (("ArrowDown", 1), ("ArrowDown", 1), ("Home", 0), ("End", 1), ("ArrowUp", 0)):
        press(key)
        assert page.evaluate("document.activeElement.dataset.index") == str(number)
    press("Enter")
    page.locator(".alternatives").wait_for()
    alternative = page.locator(".alternatives button").first.inner_text()
    press("1")
    wait_until_translated(page)
    assert shown(page)[0] == alternative != before[0]
    press("e")
    page.keyboard.type("Niemals.")
    press("Escape")
    assert shown(page)[0] == alternative
    press("F2")
    page.keyboard.type("Tom braucht es.")
    press("Enter")
    wait_until_translated(page)
    assert shown(page)[0] == "Tom braucht es."
    press("u")
    wait_until_translated(page)
    assert shown(page)[0] == before[0]
    press("Escape")
    assert page.locator("#details").is_hidden()
    assert page.evaluate("document.activeElement.dataset.index") == "0"
    press("?")
    assert page.get_by_role("dialog", name="Shortcuts").is_visible()
    press("Escape")
    assert page.get_by_role("dialog").is_hidden()


def test_subtitles_that_are_dropped_keep_their_times(browser: Browser, server: RunningServer, tmp_path: Path) -> None:
    page = browser.open(server.url)
    (tmp_path / "film.srt").write_text(SRT, encoding="utf-8")
    drop(page, tmp_path / "film.srt")
    wait_until_translated(page)
    assert page.get_by_role("button", name="Edit text").is_hidden()
    one, two = shown(page)
    name, content = exported(page, "Subtitles, SRT")
    assert name == "film.de.srt"
    assert content == SRT.replace("Where is the cat?", one).replace("It is old.", two)
    assert exported(page, "Text") == ("film.de.txt", f"{one}\n{two}\n")
    (tmp_path / "talk.doc").write_text("no text", encoding="utf-8")
    drop(page, tmp_path / "talk.doc")
    assert "does not read .doc files" in page.get_by_role("alert").inner_text()
    assert shown(page) == [one, two]
    assert _expected(browser, "400")


def test_a_file_keeps_placeholders_and_translations(browser: Browser, server: RunningServer, tmp_path: Path) -> None:
    page = browser.open(server.url)
    po = 'msgid "Hello, Mrs Klein."\nmsgstr "Hallo, Frau Klein."\n\nmsgid "Do you see it, %s?"\nmsgstr ""\n'
    (tmp_path / "a.po").write_text(po, encoding="utf-8")
    drop(page, tmp_path / "a.po")
    wait_until_translated(page)
    given, found = shown(page)
    assert given == "Hallo, Frau Klein."
    assert page.locator(".row .label").all_inner_texts() == ["from the file"]
    assert "%s" in found
    name, content = exported(page, "PO")
    assert name == "a.de.po"
    expected = f'msgid "Do you see it, %s?"\nmsgstr "{found}"'
    assert expected.replace(" ", "") in content.replace(" ", "")  # the file has a space between word and placeholder


def test_text_is_text(browser: Browser, server: RunningServer) -> None:
    page = browser.open(server.url, width=390, height=844)
    lines = [
        "<script>window.broken = 1</script>",
        '<img src="x" onerror="window.broken = 1">',
        "هذا نص من اليمين إلى اليسار.",
        "👩‍👩‍👧‍👦 🇩🇪 e\u0301 \u202eevil",
        "long" * 60,
    ]
    page.get_by_label("One sentence on each line").check()
    translate(page, "\n".join(lines))
    assert page.locator(".row .source").all_text_contents() == lines
    assert page.locator(".row .source").nth(2).evaluate("it => getComputedStyle(it).direction") == "rtl"
    page.locator(".row").nth(0).click()
    page.locator(".alone").wait_for()
    assert page.evaluate("window.broken") is None
    assert page.evaluate("document.documentElement.scrollWidth") == 390  # nothing hangs over the edge


def test_a_long_document_can_be_used_while_it_is_translated(browser: Browser, server: RunningServer) -> None:
    page = browser.open(server.url)
    text = "\n".join(f"Tom needs the boat {i}." for i in range(2000))
    page.get_by_label("Translate a document").evaluate("(area, text) => (area.value = text)", text)
    page.get_by_role("button", name="Translate").click()
    page.locator(".row .text").nth(3).wait_for()
    assert page.locator(".row").count() == 2000
    page.locator(".row").nth(3).click()
    page.locator(".mattered li").nth(1).wait_for()
    page.keyboard.press("End")
    assert page.locator(".row").nth(1999).is_visible()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Continue").wait_for()
    done = page.locator(".row .text").count()
    assert 3 < done < 2000
    assert page.locator("#progress").inner_text() == f"{done} of 2000 sentences"
    page.get_by_role("button", name="Continue").click()
    page.locator(".row .text").nth(done).wait_for()


def test_only_what_was_edited_is_translated_again(browser: Browser, server: RunningServer) -> None:
    page = browser.open(server.url)
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request) if request.url.endswith("v1/documents") else None)
    translate(page)
    before = shown(page)
    page.get_by_role("button", name="Edit text").click()
    longer = TEXT.replace("The boat is red.", "The cat is red. Tom needs it.")
    translate(page, longer)
    assert shown(page)[:4] == before[:4]
    assert len(shown(page)) == 6
    assert [json.loads(request.post_data)["sentences"] for request in sent] == [
        SENTENCES,
        [*SENTENCES[2:4], "The cat is red.", "Tom needs it."],
    ]
    page.get_by_role("button", name="Edit text").click()
    translate(page, longer.replace("It is old.", "It is new."))
    third = json.loads(sent[2].post_data)["sentences"]
    assert third == [SENTENCES[0], "It is new.", *SENTENCES[2:4]]  # and those with it in their windows


def test_errors_are_shown_and_nothing_is_lost(browser: Browser, server: RunningServer) -> None:
    page = browser.open(server.url)
    page.context.set_offline(True)
    page.get_by_label("Translate a document").fill(TEXT)
    page.get_by_role("button", name="Translate").click()
    assert page.get_by_role("alert").locator("p").inner_text().startswith("The server does not answer.")
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    wait_until_translated(page)
    assert page.get_by_role("alert").is_hidden()
    assert page.locator(".row .source").all_inner_texts() == SENTENCES
    assert _expected(browser, "ERR_INTERNET_DISCONNECTED")


def test_an_error_names_a_file_as_it_is_written(browser: Browser, server: RunningServer, tmp_path: Path) -> None:
    page = browser.open(server.url)
    (tmp_path / "photo.jpg").write_text("no text", encoding="utf-8")
    drop(page, tmp_path / "photo.jpg")
    assert page.get_by_role("alert").inner_text().startswith("photo.jpg: ")
    assert _expected(browser, "400")


def test_several_pairs_behind_a_key(browser: Browser, run: Path, launcher: Launcher, tmp_path: Path) -> None:
    languages = {"source_language": "de", "target_language": "en"}
    other = tiny_run(tmp_path, data=languages).path
    (tmp_path / "keys").write_text("sesame\n", encoding="utf-8")
    with served(launcher, tmp_path, run, other, "--keys", tmp_path / "keys") as address:
        page = browser.open(address)
        page.get_by_role("alert").get_by_label("Key").fill("sesame")
        page.get_by_role("button", name="Use it").click()
        page.get_by_label("Languages").select_option("German → English")
        assert _expected(browser, "401")
        with page.expect_request("**/v1/documents") as request:
            translate(page, "Wo ist das Boot?")
        assert json.loads(request.value.post_data)["source"] == "de"
        assert page.get_by_role("columnheader").all_inner_texts() == ["German", "English"]
        page.get_by_label("Languages").select_option("English → German")
        page.get_by_role("columnheader").first.filter(has_text="English").wait_for()
        wait_until_translated(page)
        assert page.get_by_role("columnheader").all_inner_texts() == ["English", "German"]


def _expected(browser: Browser, reason: str) -> bool:
    """Whether the browser reports just the one answer that has failed; it does so on the console.

    The icon does not count: a browser asks for it when it likes, also while a test has it offline.
    """
    reported = [problem for problem in browser.wrong if not problem.endswith("/icon.svg")]
    browser.wrong.clear()
    return len(reported) == 1 and "Failed to load resource" in reported[0] and reason in reported[0]


def test_light_and_dark(browser: Browser, server: RunningServer) -> None:
    page = browser.open(server.url, dark=True)
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    button = page.get_by_role("button", name="Colours")
    button.click()
    assert page.evaluate(colour) != dark
    page.reload()
    assert page.evaluate(colour) != dark  # it is remembered
    button.click()
    assert page.evaluate(colour) == dark
    assert button.get_attribute("aria-label") == "Colours: dark"


def test_words_that_differ(browser: Browser, server: RunningServer) -> None:
    page = browser.open(server.url)
    compare = """async ([text, other, language]) => {
      const { compare } = await import("./words.js");
      return compare(text, other, language).map(({ text, differs }) => (differs ? `[${text}]` : text)).join("");
    }"""
    for text, other, marked in (
        ("Können Sie sie sehen?", "Kannst du sie sehen?", "[Können Sie] sie sehen?"),
        ("Tom sieht es.", "Tom sieht es.", "Tom sieht es."),
        ("Tom sieht das alte Boot.", "Tom sieht das Boot.", "Tom sieht das [alte] Boot."),
        ("", "Tom", ""),
        ("a b c d", "b x d", "[a] b [c] d"),
    ):
        assert page.evaluate(compare, [text, other, "de"]) == marked
    assert page.evaluate(compare, ["我喜欢猫。", "我喜欢狗。", "zh"]) == "我喜欢[猫]。"


def test_a_document_that_is_dropped_keeps_its_formats(browser: Browser, server: RunningServer, tmp_path: Path) -> None:
    page = browser.open(server.url)
    document = docx.Document()
    document.add_heading("Where is the cat?")
    document.add_paragraph("It is old.").runs[0].bold = True
    document.save(str(tmp_path / "report.docx"))
    drop(page, tmp_path / "report.docx")
    wait_until_translated(page)
    name, content = exported_bytes(page, "DOCX")
    assert name == "report.de.docx"
    heading, paragraph = docx.Document(io.BytesIO(content)).paragraphs
    assert [heading.text, paragraph.text] == shown(page)
    assert (heading.style.name, paragraph.runs[0].bold) == ("Heading 1", True)

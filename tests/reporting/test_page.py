"""`focat report` as a user runs it: every figure is the one of the result file, and the page stands alone."""

import json
import math
import re
import shutil
import subprocess
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from safetensors.numpy import load_file

from focat.reporting.examples import Translated
from focat.reporting.page import ReportOptions, write_report
from tests.evaluation.commands import focat, refused
from tests.reporting.pages import Page
from tests.training.runs import records


def test_sections_in_order(report):
    assert report.page.headings() == [
        "What only context decides",
        "Translation quality",
        "Where systems disagree",
        "Translations side by side",
        "Attention over one window",
        "Where attention goes",
        "Windows of other sizes",
        "What context sentences contribute",
        "Training",
        "The systems",
    ]


def test_how_often_only_one_of_two_systems_is_right(report):
    section = next(section for section in report.page.all("section") if section.attributes["id"] == "disagree")
    counted = r"(once|[\d,]+ times)\."
    assert re.search(rf"Only focused is right: {counted} Only base: {counted}", section.text)


@pytest.mark.parametrize("by", ["phenomenon", "quality"])
def test_figures_are_those_of_compare(report, by):
    """Scores, stars and differences, as `focat compare` has them of the same files."""
    name, title = ("test.json", "Translation quality") if by == "quality" else ("answers.jsonl", "By phenomenon")
    files = [f"{system}={system}/results/{name}" for system in ("base", "focused")]
    options = [] if by == "quality" else ["--by", by]
    focat(report.folder, "compare", *files, *options, "--json", f"{by}.json")
    found = report.json(f"{by}.json")
    table = next(table for caption, table in report.page.tables().items() if caption.startswith(title))
    assert table.columns == list(found["items"])
    stars = {(finding["system"], finding["column"]): finding["stars"] for finding in found["findings"]}
    for system, scores in found["systems"].items():
        for column, cell in zip(table.columns, table.rows[system], strict=True):
            assert cell[:2] == [f"{scores[column]:.2f}", stars.get((system, column), "")]
    for finding in found["findings"]:
        difference = f"{finding['difference']:+.2f}"
        assert f"<td>{finding['column']}</td><td>{difference}</td>" in report.page.source


def test_intervals(report):
    """As `focat contrast` and `focat evaluate` wrote them."""
    tables = report.page.tables()
    for system in ("base", "focused"):
        sections = {section["title"]: section for section in report.json(f"{system}/results/contrast.json")["sections"]}
        figures = {figure["name"]: figure for figure in sections["By phenomenon"]["figures"]}
        shown = dict(zip(tables["By phenomenon"].columns, tables["By phenomenon"].rows[system], strict=True))
        for phenomenon in ("pronoun", "deixis"):
            figure = figures[phenomenon]
            assert shown[phenomenon][2] == f"{figure['low']:.2f} to {figure['high']:.2f}"
        quality = next(table for title, table in tables.items() if title.startswith("Translation quality"))
        for figure, cell in zip(
            report.json(f"{system}/results/test.json")["figures"], quality.rows[system], strict=True
        ):
            low, high = figure["interval"]
            assert cell[0] == f"{figure['score']:.2f}"
            assert cell[2] == f"{low:.2f} to {high:.2f}"


def test_distances_of_one_suite(report):
    """A file holds several suites: the table of one counts only its own instances."""
    lines = (report.folder / "focused/results/answers.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [answer for answer in map(json.loads, lines) if answer["suite"] == "contrapro"]
    table = report.page.tables()["contrapro, by distance in sentences"]
    for column, cell in zip(table.columns, table.rows["focused"], strict=True):
        if column.startswith("d = "):
            right = [answer["correct"] for answer in answers if answer["distance"] == int(column[4:])]
            assert float(cell[0]) == pytest.approx(100 * sum(right) / len(right), abs=0.005)


def test_analysis(report):
    found, tables = report.json("analysis.json"), report.page.tables()
    stars = {(finding["system"], finding["column"]): finding["stars"] for finding in found["findings"]}
    share = found["systems"]["focused"]["attention"]["share"]
    shown = tables["Attention that stays on the current sentence, %"]
    assert list(shown.rows) == ["focused"]  # base has no other sentence to look at
    assert [cell[0] for cell in shown.rows["focused"]] == [f"{100 * share[stack]:.1f}" for stack in shown.columns]
    for system, of_system in found["systems"].items():
        spread = of_system["attention"]["entropy"]["mean-then-entropy"]
        shown = tables["Entropy of attention, mean first, then entropy"]
        for stack, cell in zip(shown.columns, shown.rows[system], strict=True):
            name = f"attention.entropy.mean-then-entropy.{stack}"
            assert cell[:2] == [f"{spread[stack]:.3f}", stars.get((system, name), "")]
        shown = tables["Loss of the current sentence, by window size"]
        for entry, cell in zip(of_system["robustness"]["sizes"], shown.rows[system], strict=True):
            text = f"{entry['loss']:.3f}"
            assert cell[0] == (text if entry["seen"] else f"[{text}]")
    dropped = found["systems"]["focused"]["context"]["dropped"]
    shown = tables["Lost without a sentence, from both sides"].rows["focused"]
    assert [cell[0] for cell in shown] == [f"{row['per_token']:+.4f}".replace("-", "−") for row in dropped]


def test_systems(report):
    shown = report.page.tables()[""]
    assert shown.columns == ["base", "focused"]
    weights = load_file(report.folder / "focused/checkpoints/0000012/weights.safetensors")
    validation = [record for record in records(report.folder / "focused", "validation") if record["best"]][-1]
    expected = {
        "window": "3",
        "weights": f"{sum(math.prod(tensor.shape) for tensor in weights.values()):,}",
        "updates": "12",
        "seed": "1",
        "best validation": f"{validation['best_value']:.4f}, current, at {validation['update']}",
        "windows.before": "2",
        "objective.discount": "0.01",
    }
    assert {name: shown.rows[name][1][0] for name in expected} == expected
    assert "model.heads" not in shown.rows  # which both have in common


def test_training_curves(report):
    plots = {
        e.attributes["aria-label"].split(" along")[0]: e.attributes["aria-label"]
        for e in report.page.all("svg", role="img")
    }
    for figure, title in (("current", "Loss of the current sentence"), ("learning_rate", "Learning rate")):
        for system in ("base", "focused"):
            log = records(report.folder / system, "train")
            first, last = (f"{log[i][figure]:.3g} at update {log[i]['update']}" for i in (0, -1))
            assert f"{system} {first}, {last}" in plots[title]
    assert "base" not in plots["Loss of context"]


def test_page_loads_nothing_from_elsewhere(report):
    source = report.page.source
    assert not re.search(r"https?:|@import|<script|<link|<img|<iframe|srcset|@font-face", source)
    for element in report.page.elements:
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href"):
                assert value.startswith(("#", "data:image/png;base64,"))
    assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?([^)]*)", source))


def test_accessible(report):
    page = report.page
    assert page.all("html", lang="en")
    assert len(page.all("h1")) == 1
    levels = [int(e.tag[1]) for e in page.elements if re.fullmatch(r"h[1-6]", e.tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    referred = [e.attributes[name] for e in page.elements for name in ("aria-labelledby",) if name in e.attributes]
    referred += [e.attributes["href"][1:] for e in page.elements if e.attributes.get("href", "").startswith("#")]
    assert set(referred) <= set(ids)
    for svg in page.all("svg"):
        assert svg.attributes.get("aria-hidden") == "true" or svg.attributes["aria-label"]
    for table in page.all("table"):  # a wide one scrolls in its own box, and can be reached by keyboard
        box = table.inside("div")
        assert table.attributes["class"] == "parallel" or (box.attributes["class"], box.attributes["tabindex"]) == (
            "scroll",
            "0",
        )


def test_every_section_shows_provenance(report):
    source = report.page.source
    assert source.count("<summary>How ") >= len(report.page.headings()) - 3  # examples and plots show what tables say
    signature = report.json("focused/results/contrast.json")["suites"][0]["signature"]
    assert signature in source
    assert (
        "focat compare base=base/results/answers.jsonl focused=focused/results/answers.jsonl --by phenomenon" in source
    )
    assert "focat report base focused --results analysis.json" in source


def test_examples_come_from_the_suite(report):
    suite = json.loads((report.folder / "suites/deixis.json").read_text(encoding="utf-8"))
    said = {}
    for system in ("base", "focused"):
        lines = (report.folder / system / "results/answers.jsonl").read_text(encoding="utf-8").splitlines()
        said[system] = {a["id"]: a["correct"] for a in map(json.loads, lines) if a["suite"] == "deixis"}
    shown = [e for e in report.page.all("article", class_="example") if "· deixis" in e.text]
    assert shown
    for article in shown:
        number = int(re.search(r"deixis (\d+)", article.text)[1])
        assert said["base"][number] != said["focused"][number]
        for sentence in suite[number]["src"].split(" _eos "):
            assert sentence in article.text
        right = suite[number]["dst"][suite[number]["true_ind"]].split(" _eos ")[-1]
        assert right in article.text


def test_translations_are_those_evaluated(report):
    (table,) = report.page.all("table", class_="parallel")
    number = int(re.search(r"Document (\d+) of 3", report.page.source)[1])
    for system in ("base", "focused"):
        said = report.json(f"{system}/results/test.json")["translations"][number - 1]
        cells = [e.text for e in report.page.elements if e.attributes.get("data-label") == system]
        assert cells == [" ".join(text.split()) for text in said] or cells == said
        assert all(cell.inside("table") is table for cell in report.page.elements if "data-label" in cell.attributes)


def test_attention_shows_the_words(report):
    """The words of the window on both axes, pieces joined; each once for each place it has."""
    (source,) = re.findall(r"<dt>source</dt><dd>(.*?)</dd>", report.page.source)
    (cross,) = (
        e for e in report.page.all("svg", role="img") if e.attributes["aria-label"].startswith("Cross-attention")
    )
    for word in source.replace(" | ", " ").split():
        assert word in cross.text
    assert cross.text.count("<S>") >= source.count("|")


HOSTILE = '<script>alert("x")</script> & $a_b$ \' <b>'


def test_hostile_text(report, tmp_path):
    """Sentences, names and files may hold anything; all of it is text on the page."""
    window = tmp_path / "window.txt"
    window.write_text(f"{HOSTILE}\nIt is {HOSTILE}\n\n{HOSTILE}\nSie {HOSTILE}\n", encoding="utf-8")
    answer = {"suite": HOSTILE, "id": HOSTILE, "phenomenon": HOSTILE, "distance": 1, "right": 0, "rule": "current-sum"}
    answer |= {"source": [HOSTILE, HOSTILE], "target": [HOSTILE], "candidates": [HOSTILE, "other"]}
    for system, correct in (("base", False), (HOSTILE, True)):
        line = json.dumps(answer | {"correct": correct, "chosen": 1 - correct, "scores": {"current-sum": [0, 1]}})
        (tmp_path / f"{system == 'base'}.jsonl").write_text(line + "\n", encoding="utf-8")
    for run in ("base", "focused"):
        shutil.copytree(report.folder / run, tmp_path / "runs" / run, ignore=shutil.ignore_patterns("results"))
    runs = [f"base={tmp_path}/runs/base", f"{HOSTILE}={tmp_path}/runs/focused"]
    results = [f"base={tmp_path}/True.jsonl", f"{HOSTILE}={tmp_path}/False.jsonl"]
    documents = [Translated(HOSTILE, [HOSTILE], {"base": ["a"], HOSTILE: [HOSTILE]}, [HOSTILE])]
    out = tmp_path / "page.html"
    write_report(runs, out, results, documents, options=ReportOptions(window=window), command=HOSTILE)
    page = Page(out.read_text(encoding="utf-8"))
    assert not page.all("script")
    assert not page.all("b")
    assert page.headings("h1") == [f"base, {HOSTILE}"]
    (article,) = page.all("article", class_="example")
    assert article.text.count("alert") >= 5
    (cross,) = (e for e in page.all("svg", role="img") if e.attributes["aria-label"].startswith("Cross"))
    assert '<script>alert("x")</script>' in cross.text
    assert "$a_b$" in cross.text


def test_sections_without_results_are_left_out(report, tmp_path):
    shutil.copytree(report.folder / "focused", tmp_path / "run", ignore=shutil.ignore_patterns("results"))
    focat(tmp_path, "report", "run")
    page = Page((tmp_path / "run/report.html").read_text(encoding="utf-8"))
    assert page.headings() == ["Attention over one window", "Training", "The systems"]
    for section in page.all("section"):
        assert len(section.text.split()) > 20
    shutil.rmtree(tmp_path / "run/checkpoints")
    for name in ("best", "log.jsonl"):
        (tmp_path / "run" / name).unlink()
    focat(tmp_path, "report", "run", "--overwrite")
    page = Page((tmp_path / "run/report.html").read_text(encoding="utf-8"))
    assert page.headings() == ["The systems"]
    assert not page.all("nav")


def test_one_system_is_not_compared(report, tmp_path):
    plots = tmp_path / "plots"
    focat(report.folder, "report", "base", "-o", tmp_path / "page.html", "--plots", plots)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    table = page.tables()["By phenomenon"]
    assert list(table.rows) == ["base"]
    assert all(stars == "" and interval for _, stars, interval in table.rows["base"])
    assert "Best in bold" not in page.source
    assert page.headings() == ["What only context decides", "Translation quality", "Training", "The systems"]
    names = sorted(path.stem for path in plots.glob("*.svg"))
    curves = ("current", "discount", "learning-rate", "tokens-per-second")
    assert names == ["accuracy", *(f"training-{name}" for name in curves)]
    assert names == sorted(path.stem for path in plots.glob("*.png"))
    for name in names:
        assert (plots / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n")
        ElementTree.parse(plots / f"{name}.svg")
    assert "plots/accuracy.svg: exists" in refused(
        report.folder, "report", "base", "-o", tmp_path / "other.html", "--plots", plots
    )


def test_names_with_an_equals_sign(report, tmp_path):
    shutil.copytree(report.folder / "base", tmp_path / "lr=0.1")
    focat(tmp_path, "report", "lr=0.1", f"other={report.folder / 'focused'}", "-o", "page.html")
    tables = Page((tmp_path / "page.html").read_text(encoding="utf-8")).tables()
    assert all(list(table.rows) == ["lr=0.1", "other"] for title, table in tables.items() if title)


def test_errors_name_what_is_wrong(report, tmp_path):
    def no(*arguments):
        return refused(report.folder, "report", *arguments)

    assert "holds no run" in no("suites")
    assert no("nowhere").startswith("nowhere: holds no run (there is no such folder)")
    assert "there is another run called base; name it, as in NAME=base" in no("base", "base")
    assert "page.html: exists; give another file, or overwrite it" in no("base", "-o", "page.html")
    assert "nowhere/page.html: there is no folder nowhere" in no("base", "-o", "nowhere/page.html")
    out = ["-o", tmp_path / "page.html"]
    assert "nothing.json" in no("base", *out, "--results", "nothing.json")
    assert "suites/deixis.json: is no result of" in no("base", *out, "--results", "suites/deixis.json")
    (tmp_path / "cut.jsonl").write_text('{"suite": "deixis", "id": 1, "correct": true}\n{"suite": ')
    assert "cut.jsonl, line 2: is no JSON object" in no("base", *out, "--results", tmp_path / "cut.jsonl")
    assert "--layer 9: the model of focused has layers 1 to 1" in no("focused", *out, "--layer", 9)
    assert "--attention-of you: no run has this name; choose from base, focused" in no(
        "base", "focused", *out, "--attention-of", "you"
    )
    (tmp_path / "window.txt").write_text("one\n\ntwo\n\nthree\n")
    assert "found 3 blocks of lines" in no("focused", *out, "--window", tmp_path / "window.txt")
    (tmp_path / "window.txt").write_text("word " * 5000 + "\n\none\n")
    assert "tokens; focused takes 1,024 at most" in no("focused", *out, "--window", tmp_path / "window.txt")
    assert "are for a suite like ContraPro: give one" in no("base", *out, "--context-source", "x")
    assert not (tmp_path / "page.html").exists()


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no browser here")
def test_in_a_browser(report, tmp_path):
    """Nothing to complain about: the browser's console stays empty, and a picture of the page is not blank."""
    picture = tmp_path / "page.png"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={tmp_path}/browser", "--window-size=390,1600", f"--screenshot={picture}"]
    shown = subprocess.run([*command, str(report.folder / "page.html")], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    assert "CONSOLE" not in shown.stderr
    assert picture.stat().st_size > 20_000

"""Suites as they were published: every layout, compressed or not, and one clear line for what is wrong with them."""

import gzip
import json
import lzma

import pytest

from focat.corpus.generated import contrapro_suite, voita_suite, write_suites
from focat.errors import FocatError
from focat.evaluation.suites import (
    ContextFiles,
    ContextFolder,
    Instance,
    Suite,
    TextNormalization,
    contrapro_instances,
    normalization,
    read_suite,
    voita_instances,
)
from focat.evaluation.suites.normalization import detokenise

VOITA = {
    "src": "a _eos b _eos c _eos d",
    "dst": ["A _eos B _eos C _eos D", "A _eos B _eos C _eos E"],
    "true_ind": 1,
    "ctx_dist": 2,
}
PRONOUN = {
    "document id": "1999_1_2.de",
    "segment id": 3,
    "src pronoun": "it",
    "ref pronoun": "Er",
    "ante distance": 1,
    "intrasegmental": False,
    "src segment": "It sleeps.",
    "ref segment": "Er schläft.",
    "errors": [{"contrastive": "Sie schläft.", "replacement": "sie"}],
}
OWN = {"source": ["a", "b"], "target": ["A"], "candidates": ["B", "C"], "right": 1}


def write(path, content):
    text = content if isinstance(content, str) else json.dumps(content)
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


# ---------------------------------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("ending", [".json", ".json.xz", ".json.gz"])
def test_voita(tmp_path, ending):
    suite = read_suite(write(tmp_path / f"lex_cohesion_test{ending}", [VOITA, VOITA]))
    assert (suite.name, suite.kind, suite.candidates) == ("lex_cohesion_test", "voita", 4)
    assert suite.instances[1] == Instance(
        ["a", "b", "c", "d"], ["A", "B", "C"], ["D", "E"], 1, 2, strict=False, phenomenon="lex_cohesion", id=1
    )


def test_digest_is_of_the_text_not_of_its_compression(tmp_path):
    digests = {read_suite(write(tmp_path / f"a{ending}", [VOITA])).sha256 for ending in (".json", ".json.xz")}
    assert len(digests) == 1


def test_contrapro_with_context_lines():
    entries = [
        {"src segment": "x", "ref segment": "X", "errors": [{"contrastive": "Y"}], "ante distance": 1},
        {"src segment": "z", "ref segment": "Z", "errors": [{"contrastive": "W"}], "ante distance": None},
    ]
    lines = ["", "p", "", "p", "q", "r", "q", "r"], ["P", "P", "R", "R"]  # two to a candidate, and one
    first, second = contrapro_instances(entries, lines)
    assert (first.source, first.target, first.candidates) == (["p", "x"], ["P"], ["X", "Y"])  # blank: it begins there
    assert (second.source, second.target, second.distance) == (["q", "r", "z"], ["R"], None)
    assert first.strict
    assert first.right == second.right == 0


def test_contrapro_from_files_equals_from_a_folder(tmp_path):
    """The generated suite in both layouts; the folder holds what the lines were taken from."""
    entries, source, target = contrapro_suite(12, 3)
    sizes = [3 * (1 + len(entry["errors"])) for entry in entries]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    documents = tmp_path / "documents"
    for entry, start in zip(entries, starts, strict=True):
        before = [(source[i], target[i]) for i in range(start, start + 3) if source[i]]
        pairs = [*before, (entry["src segment"], entry["ref segment"])]
        entry["segment id"] = len(pairs)
        folder = documents / "1999"
        folder.mkdir(parents=True, exist_ok=True)
        for side, language in enumerate(("en", "de")):
            name = entry["document id"].removesuffix(".de") + f".{language}"
            write(folder / name, "".join(pair[side] + "\n" for pair in pairs))
    for name, lines in (("en", source), ("de", target)):
        write(tmp_path / f"c.context.{name}.xz", "".join(line + "\n" for line in lines))
    path = write(tmp_path / "c.json", entries)
    files = ContextFiles(tmp_path / "c.context.en.xz", tmp_path / "c.context.de.xz")
    from_files, from_folder = read_suite(path, files), read_suite(path, ContextFolder(documents, ("en", "de")))
    assert from_files.instances == from_folder.instances
    assert {len(instance.source) for instance in from_files.instances} > {4}
    counted_from_zero = [entry | {"segment id": entry["segment id"] - 1} for entry in entries]  # as En→Fr has it
    french = read_suite(write(tmp_path / "f.json", counted_from_zero), ContextFolder(documents, ("en", "de")))
    assert [i.source for i in french.instances] == [i.source for i in from_files.instances]
    one = ContextFolder(documents, ("en", "de"), most=1)
    assert max(len(instance.target) for instance in read_suite(path, one).instances) == 1
    assert from_files.identity == from_folder.identity != read_suite(path, one).identity  # context is part of it


def test_context_in_another_order_than_the_suite(tmp_path):
    """As the French set comes: files by document, with the sentences beside them."""
    entries = [PRONOUN | {"src segment": f"It {i}.", "ref segment": f"Er {i}."} for i in range(3)]
    order = [2, 0, 1]
    write(tmp_path / "x.context.src", "".join(f"c{i}\n" * 2 for i in order))
    write(tmp_path / "x.context.trg", "".join(f"C{i}\n" * 2 for i in order))
    write(tmp_path / "x.current.src", "".join(f"It {i}.\n" * 2 for i in order))
    write(tmp_path / "x.current.trg", "".join(f"Er  {i}.\nSie schläft.\n" for i in order))
    files = ContextFiles(tmp_path / "x.context.src", tmp_path / "x.context.trg")
    path = write(tmp_path / "x.json", entries)
    assert [i.source for i in read_suite(path, files).instances] == [[f"c{i}", f"It {i}."] for i in range(3)]
    assert [i.target for i in read_suite(path, files).instances] == [["C0"], ["C1"], ["C2"]]
    for name in ("src", "trg"):  # as published: X.c1.context.src, X.c2.context.src, … share X.current.src
        (tmp_path / f"x.context.{name}").rename(tmp_path / f"x.c1.context.{name}")
    files = ContextFiles(tmp_path / "x.c1.context.src", tmp_path / "x.c1.context.trg")
    assert [i.source for i in read_suite(path, files).instances] == [[f"c{i}", f"It {i}."] for i in range(3)]
    twice = [entries[0] | {"document id": name} for name in ("b.fr", "a.fr")]  # the same sentences in two films
    for name, text in {"context.src": "a\nb\n", "context.trg": "A\nB\n"}.items():
        write(tmp_path / f"y.{name}", "".join(f"{line}\n" * 2 for line in text.split()))
    for name, text in {"src": "It 0.\nIt 0.\n", "trg": "Er 0.\nSie schläft.\n"}.items():
        write(tmp_path / f"y.current.{name}", text * 2)
    both = read_suite(
        write(tmp_path / "y.json", twice), ContextFiles(tmp_path / "y.context.src", tmp_path / "y.context.trg")
    )
    assert [i.source[0] for i in both.instances] == ["b", "a"]
    write(tmp_path / "x.current.src", "It 2.\n" * 2 + "It 7.\n" * 4)
    with pytest.raises(FocatError, match=r"x\.current\.trg, line 3: starts no entry of the suite"):
        read_suite(path, files)


def test_contrapro_without_context_says_so(tmp_path):
    suite = read_suite(write(tmp_path / "c.json", [PRONOUN, PRONOUN | {"ante distance": -1}]))
    assert not suite.has_context
    assert suite.instances[0].source == ["It sleeps."]
    assert suite.instances[0].forms == ["Er", "sie"]
    assert suite.instances[1].distance is None  # how the French set says that nobody knows


def test_own_format(tmp_path):
    more = {
        "id": "x7",
        "phenomenon": "gender",
        "distance": 4,
        "ties": "first",
        "labels": {"by": "me"},
        "forms": ["b", "c"],
    }
    suite = read_suite(write(tmp_path / "mine.jsonl", json.dumps(OWN) + "\n" + json.dumps(OWN | more) + "\n"))
    assert suite.instances == [
        Instance(["a", "b"], ["A"], ["B", "C"], 1, None, strict=True, phenomenon="mine", id=0),
        Instance(
            ["a", "b"],
            ["A"],
            ["B", "C"],
            1,
            4,
            strict=False,
            phenomenon="gender",
            id="x7",
            labels={"by": "me"},
            forms=["b", "c"],
        ),
    ]


def test_generated_suites_are_read_like_the_published_ones(tmp_path):
    write_suites(tmp_path, 12, 1)
    for name in ("deixis", "lex_cohesion", "ellipsis_vp"):
        suite = read_suite(tmp_path / f"{name}.json")
        assert suite.kind == "voita"
        assert suite.instances[0].phenomenon == name
    files = ContextFiles(tmp_path / "contrapro.context.en", tmp_path / "contrapro.context.de")
    assert len(read_suite(tmp_path / "contrapro.json", files).instances) == 12


# ------------------------------------------------------------------------------------------------------ what is wrong

V, P = VOITA, PRONOUN
WRONG = [
    (
        "v.json",
        [V, {k: V[k] for k in ("dst", "true_ind")}],
        "v.json, entry 2: `src`: Field required",
    ),
    ("v.json", [V | {"true_ind": 2}], "entry 1: `true_ind` is 2, but the 2 candidates are counted from 0 to 1"),
    ("v.json", [V | {"true_ind": "1"}], "entry 1: `true_ind`: Input should be a valid integer"),
    (
        "v.json",
        [V | {"dst": V["dst"][:1]}],
        "entry 1: `dst`: List should have at least 2 items",
    ),
    ("v.json", [V, V | {"dst": ["A _eos D", "A _eos E"]}], "entry 2: `dst[0]` has 2 sentences but `src` has 4"),
    (
        "v.json",
        [V | {"dst": ["A _eos B _eos C _eos D", "A _eos X _eos C _eos E"]}],
        "entry 1: `dst[1]` differs from `dst[0]` before the last sentence",
    ),
    ("v.json", [V | {"dst": ["A _eos B _eos C _eos D", None]}], "entry 1: `dst[1]`: Input should be a valid string"),
    ("v.json", [V | {"ctx_dist": "far"}], "entry 1: `ctx_dist`: Input should be a valid integer"),
    ("v.json", [V, 7], "entry 2: Input should be a valid dictionary"),
    ("v.json", [], "v.json: holds no instance"),
    ("v.json", "", "v.json: holds no instance"),
    ("v.json", '[{"src": ', "v.json: not JSON that can be read"),
    ("v.json", [{"what": 1}], "v.json: no suite that is known"),
    ("c.json", [P | {"errors": []}], "entry 1: `errors`: List should have at least 1 item"),
    ("c.json", [P | {"errors": [{"replacement": "sie"}]}], "entry 1: `errors[0].contrastive`: Field required"),
    ("c.json", [P, P | {"ref segment": " "}], "entry 2: `ref segment`: is empty"),
    ("o.jsonl", json.dumps(OWN) + "\n{", "o.jsonl, line 2: not JSON that can be read"),
    ("o.jsonl", json.dumps(OWN) + "\n\n" + json.dumps(OWN), "o.jsonl, line 2: is empty"),
    ("o.jsonl", json.dumps(OWN | {"right": -1}), "line 1: `right` is -1"),
    (
        "o.jsonl",
        json.dumps(OWN | {"target": ["A", "B"]}),
        "line 1: `target` has 2 context sentences but `source` only 1",
    ),
    (
        "o.jsonl",
        json.dumps(OWN | {"colour": 1}),
        "line 1: `colour`: unknown field; what is yours alone goes under `labels`",
    ),
    ("o.jsonl", json.dumps(OWN | {"ties": "last"}), "line 1: `ties`: Input should be 'wrong' or 'first'"),
    ("o.jsonl", json.dumps(OWN | {"forms": ["b"]}), "line 1: `forms` has 1 words for 2 candidates"),
]


@pytest.mark.parametrize(("name", "content", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_one_line(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(FocatError) as error:
        read_suite(path)
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("p\np\np\n", "P\nP\n", "has 3 lines for 2 candidates of 1 entries"),
        ("p\n", "P\nP\n", "has 1 lines for 2 candidates"),
        ("p\nq\n", "P\nP\n", "entry 1: its candidates have different context in "),
    ],
)
def test_context_of_another_length(tmp_path, source, target, message):
    files = ContextFiles(write(tmp_path / "en", source), write(tmp_path / "de", target))
    with pytest.raises(FocatError, match=r"^[^\n]+$") as error:
        read_suite(write(tmp_path / "c.json", [PRONOUN]), files)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("english", "german", "message"),
    [
        (None, "Eins.\n", "holds no 1999_1_2.en, a side of document '1999_1_2.de'"),
        ("One.\n", "Eins.\nZwei.\n", "has 1 lines on the source and 2 on the target"),
        ("One.\nTwo.\nThree.\n", "Eins.\nZwei.\nDrei.\n", "`src segment` is not what segment 3 of document"),
        ("It sleeps.\n", "Er schläft.\n", "`src segment` is not what segment 3 of document"),  # out of range
    ],
)
def test_documents_that_do_not_fit(tmp_path, english, german, message):
    folder = tmp_path / "documents"
    folder.mkdir()
    for language, text in (("en", english), ("de", german)):
        if text is not None:
            write(folder / f"1999_1_2.{language}", text)
    with pytest.raises(FocatError) as error:
        read_suite(write(tmp_path / "c.json", [PRONOUN]), ContextFolder(folder, ("en", "de")))
    assert "c.json, entry 1: " in str(error.value)
    assert message in str(error.value)


def test_context_files_for_a_suite_that_has_its_own(tmp_path):
    files = ContextFiles(write(tmp_path / "en", "p\n"), write(tmp_path / "de", "P\n"))
    with pytest.raises(FocatError, match="has its context inside"):
        read_suite(write(tmp_path / "v.json", [VOITA]), files)


# --------------------------------------------------------------------------------------------------------------- form


@pytest.mark.parametrize(
    ("tokenised", "raw"),
    [
        ("You 've never been caught .", "You've never been caught."),
        ("Of course they aren 't .", "Of course they aren't."),
        ("Spence 's keys , then ?", "Spence's keys, then?"),
        ('" Oh , my God , what happened ? "', '"Oh, my God, what happened?"'),
        ('I said " no " , and " never " .', 'I said "no", and "never".'),
        ("( Ханна ) Фрэн идет", "(Ханна) Фрэн идет"),
        ("- Это политика ...", "- Это политика..."),
        ("« Да » , - сказал он .", "«Да», - сказал он."),
        ("Кто-то в доме .", "Кто-то в доме."),
        ("O 'Brien paid $ 5 , 10 % more", "O'Brien paid $5, 10% more"),
        ("well @-@ known &quot; fact &quot;", 'well-known "fact"'),
        ("just 'cause I can", "just 'cause I can"),
        ("already raw.", "already raw."),
    ],
)
def test_detokenise(tokenised, raw):
    assert detokenise(tokenised) == raw


def test_form_changes_every_sentence_and_says_so():
    suite = Suite("suite", "voita", voita_instances([VOITA | {"src": "A , _eos b _eos c _eos d ."}]))
    (changed,) = TextNormalization(detokenise=True, lowercase=True).suite(suite).instances
    assert (changed.source, changed.target) == (["a,", "b", "c", "d."], ["a", "b", "c"])
    assert changed.candidates == ["d", "e"]
    assert str(TextNormalization(detokenise=True, lowercase=True)) == "detokenise+lowercase"
    assert TextNormalization().suite(suite) is suite
    assert str(TextNormalization()) == "published"


def test_a_sentence_of_many_instances_is_detokenised_once(monkeypatch):
    done = []
    monkeypatch.setattr(normalization, "detokenise", lambda text: done.append(text) or text)
    instances = voita_instances(voita_suite("deixis", 6, 2))
    TextNormalization(detokenise=True).suite(Suite("deixis", "voita", instances))
    distinct = {text for one in instances for text in (*one.source, *one.target, *one.candidates)}
    assert sorted(done) == sorted(distinct)
    assert len(distinct) < sum(len([*one.source, *one.target, *one.candidates]) for one in instances)

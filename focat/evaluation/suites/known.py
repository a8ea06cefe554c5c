"""Suites that focat reads as published: what each tests, its files, and who made it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownSuite:
    """A published suite."""

    name: str
    languages: str
    tests: str
    files: tuple[str, ...]
    """Its files, as published; those of one phenomenon or language pair stand for all."""
    context: str
    """Where its context is, and the options that read it."""
    citation: str
    url: str


KNOWN_SUITES = (
    KnownSuite(
        "Voita et al.",
        "en→ru",
        "forms of address, lexical cohesion, ellipsis of verbs and of inflections",
        ("deixis_test.json", "lex_cohesion_test.json", "ellipsis_infl.json", "ellipsis_vp.json"),
        "inside; --detokenise for models of raw text",
        "Voita, Sennrich and Titov: When a Good Translation is Wrong in Context. ACL 2019",
        "https://github.com/lena-voita/good-translation-wrong-in-context",
    ),
    KnownSuite(
        "ContraPro",
        "en→de",
        "the gender of pronouns: it as er, sie, es",
        ("contrapro.json",),
        "--context-source contrapro.context.en --context-target contrapro.context.de, or --context-folder documents",
        "Müller, Rios, Voita and Sennrich: A Large-Scale Test Set for the Evaluation of Context-Aware Pronoun "
        "Translation in Neural Machine Translation. WMT 2018",
        "https://github.com/ZurichNLP/ContraPro",
    ),
    KnownSuite(
        "French ContraPro",
        "en→fr",
        "the gender of pronouns: it and they as il, elle, ils, elles",
        ("testset-en-fr.json",),
        "--context-source extracted/OpenSubs.c3.context.src --context-target extracted/OpenSubs.c3.context.trg, "
        "or --context-folder documents",
        "Lopes, Farajian, Bawden, Zhang and Martins: Document-level Neural MT: A Systematic Comparison. EAMT 2020",
        "https://github.com/rbawden/Large-contrastive-pronoun-testset-EN-FR",
    ),
    KnownSuite(
        "DiscEvalMT",
        "en→fr",
        "anaphora; lexical choice: repetition and disambiguation",
        ("anaphora.json", "lexical-choice.json"),
        "inside",
        "Bawden, Sennrich, Birch and Haddow: Evaluating Discourse Phenomena in Neural Machine Translation. NAACL 2018",
        "https://github.com/rbawden/discourse-mt-test-sets",
    ),
    KnownSuite(
        "CTXPro",
        "en→de, es, fr, it, pl, pt, ru; animacy into en",
        "gender, formality, animacy of pronouns; elided verbs (auxiliary) and nouns (inflection), by the form produced",
        ("gender.opensubtitles.en-de.test.json", "formality.opensubtitles.en-de.test.json"),
        "--context-source release/inputs/gender.opensubtitles.en-de.test --target-context own, or --context-folder",
        "Wicks and Post: Identifying Context-Dependent Translations for Evaluation Set Production. WMT 2023",
        "https://github.com/rewicks/ctxpro",
    ),
)

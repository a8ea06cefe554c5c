"""Closed sets of names that settings, functions and options of the command line share.

They are declared apart from the code that acts on them so that the command line can show them without importing it.
"""

from typing import Literal, get_args

TargetContext = Literal["regenerate", "reuse", "none"]
"""Where target context comes from in translation: decoded with each window, our earlier translations, or nowhere."""
TARGET_CONTEXTS: tuple[TargetContext, ...] = get_args(TargetContext)
SuiteContext = Literal["gold", "own", "none"]
"""Where target context comes from in a contrastive suite: the suite, the model's translation of its source, nowhere."""
ContextControl = Literal["real", "random", "fixed"]
"""Whose context a sentence has: its own, that of another sentence, or one and the same for all (Li et al., 2020)."""
MissingTarget = Literal["shorter", "source"]
"""Where a suite has less target context than source context: shorten the window, or keep all of the source."""
ScoringRule = Literal["current-sum", "current-mean", "window-mean"]
"""What candidates are ranked by; `window-mean` is the authors' rule."""
SCORING_RULES: tuple[ScoringRule, ...] = get_args(ScoringRule)
Precision = Literal["float32", "bfloat16"]
"""What a model computes in when it scores."""
AveragingRule = Literal["closest", "next"]
"""Which checkpoints are averaged: those nearest to the best (the paper), or the best and those after it."""
TestSplit = Literal["test", "dev"]
"""Split of a store to evaluate on."""
SignificanceTest = Literal["randomisation", "bootstrap"]
"""Test for corpus-level metrics."""
Correction = Literal["holm", "benjamini-hochberg", "none"]
"""Correction of p-values for multiple comparisons."""
AnalysisName = Literal["attention", "losses", "robustness", "context"]
"""One analysis of `focat analyse`."""
ANALYSES: tuple[AnalysisName, ...] = get_args(AnalysisName)
DropSide = Literal["both", "source", "target"]
"""Side of a window from which context sentences are dropped."""
DROP_SIDES: tuple[DropSide, ...] = get_args(DropSide)
Sinusoids = Literal["fairseq", "marian"]
"""Whose frequencies sinusoidal positions have."""
SINUSOIDS: tuple[Sinusoids, ...] = get_args(Sinusoids)
Formality = Literal["formal", "informal"]
"""Form of address of a translation: Sie or du, вы or ты."""
FORMALITIES: tuple[Formality, ...] = get_args(Formality)
FORMALITY_LANGUAGES = ("de", "ru")
"""Target languages with rules that find forms of address."""
AttentionDetail = Literal["layer", "head"]
"""How finely attention is shown."""
ScoreFormat = Literal["tsv", "jsonl"]
"""Format of `focat score`: a line for each sentence, or one with all its tokens."""
ExportFormat = Literal["hf", "ct2"]
"""What `focat export` writes: a model for transformers, or for CTranslate2."""
Quantization = Literal["float32", "float16", "bfloat16", "int16", "int8", "int8_float16", "int8_bfloat16"]
"""Type of the weights of an exported CTranslate2 model."""

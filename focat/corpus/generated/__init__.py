"""The generated corpus: a small, correct fragment of English and German whose sentences need their context.

It comes without files, in any size, always the same for the same seed, and with contrastive suites of its own. What a
sentence leaves open (er, sie or es; du or Sie; Handy or Telefon; which verb) is decided at most three sentences before,
and without them every choice is equally likely.
"""

from focat.corpus.generated.contrapro import contrapro_suite
from focat.corpus.generated.documents import generate
from focat.corpus.generated.suites import write_suites
from focat.corpus.generated.voita import GENERATED_PHENOMENA, voita_suite

__all__ = ["GENERATED_PHENOMENA", "contrapro_suite", "generate", "voita_suite", "write_suites"]

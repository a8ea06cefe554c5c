"""Start LibreTranslate with one package of Argos Translate, without the network: `python serve_peer.py PACKAGE PORT`.

It runs in an environment of LibreTranslate's own, without focat. LibreTranslate fetches a model that splits sentences
when it starts; here sentences are split at punctuation instead, which costs less.
"""

from __future__ import annotations

import re
import sys

import argostranslate.package
import argostranslate.sbd
import libretranslate
import libretranslate.init


def main() -> None:
    package, port = sys.argv[1:3]
    argostranslate.package.install_from_path(package)
    splitter = argostranslate.sbd.MiniSBDSentencizer
    splitter.__init__ = lambda self, pkg: None
    splitter.split_sentences = lambda self, text: re.findall(r"[^。！？.!?]+[。！？.!?]*", text)
    libretranslate.init.boot = lambda *arguments, **options: None
    sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", port, "--disable-web-ui"]
    libretranslate.main()


if __name__ == "__main__":
    main()

"""The four special ids, which no text can produce. They come first in every vocabulary; pieces of text follow."""

PAD = 0
START = 1  # start symbol of the decoder
END = 2  # <E>: closes a window
SEPARATOR = 3  # <S>: closes every sentence of a window but the last
SPECIALS = 4  # how many there are: piece i of SentencePiece has id i + SPECIALS

"""The four ids that no text can produce. They come first in every vocabulary; pieces of text follow."""

PAD = 0
START = 1  # what the decoder sees before the first token
END = 2  # <E>: closes a window
SEPARATOR = 3  # <S>: closes every sentence of a window but the last
SPECIALS = 4  # how many there are: piece i of SentencePiece has id i + SPECIALS

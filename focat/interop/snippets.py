"""Python code for model cards: how to translate a document with an exported model, in the API of its toolkit."""

from __future__ import annotations

from jinja2 import Environment

from focat.choices import ExportFormat
from focat.config import Settings

_TRANSFORMERS = '''
import torch
{%- if normalised.startswith("unicodedata") %}
import unicodedata
{%- endif %}
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
{%- if windows %}
start, separator = model.config.decoder_start_token_id, tokenizer.convert_tokens_to_ids("<S>")
{%- endif %}


def translate(sentences{{ ", before=" ~ before if windows }}):
{%- if windows %}
    """Translate a document; each window starts with the translations of its context."""
{%- else %}
    """Translate sentences."""
{%- endif %}
{%- if prepared != "sentence" %}
    sentences = [{{ prepared }} for sentence in sentences]
{%- endif %}
{%- if windows %}
    done = []  # token ids of each translation
    for i in range(len(sentences)):
        first = max(0, i - before)
        source = tokenizer("<S>".join(sentences[first : i + 1]), return_tensors="pt")
        prefix = [start, *(token for ids in done[{{ target_first }}:] for token in (*ids, separator))]
        output = model.generate(**source, decoder_input_ids=torch.tensor([prefix]), suppress_tokens=[separator])
        done.append(output[0, len(prefix) :].tolist()[:-1])  # without </s>
    return [tokenizer.decode(ids) for ids in done]
{%- else %}
    source = tokenizer(sentences, return_tensors="pt", padding=True)
    return tokenizer.batch_decode(model.generate(**source), skip_special_tokens=True)
{%- endif %}


print(translate(["This is a cat.", "It is old."]))
'''

_CTRANSLATE2 = '''
import ctranslate2
import sentencepiece
{%- if normalised.startswith("unicodedata") %}
import unicodedata
{%- endif %}

translator = ctranslate2.Translator("FOLDER")
source = sentencepiece.SentencePieceProcessor(model_file="FOLDER/source.spm")
target = sentencepiece.SentencePieceProcessor(model_file="FOLDER/target.spm")


def translate(sentences{{ ", before=" ~ before if windows }}):
{%- if windows %}
    """Translate a document; each window starts with the translations of its context."""
{%- else %}
    """Translate sentences."""
{%- endif %}
{%- if normalised != "sentence" %}
    sentences = [{{ normalised }} for sentence in sentences]
{%- endif %}
    pieces = source.encode(sentences, out_type=str)
{%- if prefix %}
    pieces = [["{{ prefix }}", *sentence] for sentence in pieces]
{%- endif %}
{%- if windows %}
    done = []  # pieces of each translation
    for i in range(len(sentences)):
        first = max(0, i - before)
        window = [piece for sentence in pieces[first : i + 1] for piece in (*sentence, "<S>")][:-1]
        prefix = [piece for translation in done[{{ target_first }}:] for piece in (*translation, "<S>")]
        found = translator.translate_batch(
            [window], target_prefix=[prefix], suppress_sequences=[["<S>"]],
            beam_size={{ beam }}, num_hypotheses={{ beam }}, length_penalty={{ length_penalty }}, return_scores=True,
            max_input_length=0, max_decoding_length={{ longest }},  # else 1,024 and 256 tokens, prefix included
        )[0]
        # Scores are divided by length: CTranslate2 counts the prefix too, focat the new tokens and </s> alone.
        ranked = [
            (score * ((len(tokens) + 1) / (len(tokens) + 1 - len(prefix))) ** {{ length_penalty }}, tokens)
            for score, tokens in zip(found.scores, found.hypotheses)
        ]
        done.append(max(ranked)[1][len(prefix) :])
    return target.decode(done)
{%- else %}
    found = translator.translate_batch(
        pieces, beam_size={{ beam }}, length_penalty={{ length_penalty }},
        max_input_length=0, max_decoding_length={{ longest }},  # else 1,024 and 256 tokens
    )
    return target.decode([translation.hypotheses[0] for translation in found])
{%- endif %}


print(translate(["This is a cat.", "It is old."]))
'''


def snippet(settings: Settings, to: ExportFormat, longest: int, prefix: str = "") -> str:
    """Python code that translates a document with the exported model; the folder is called FOLDER.

    Args:
        settings: of the run; its windows have no sentences after the current one.
        longest: most tokens of a window.
        prefix: token that every source sentence begins with, as `>>deu<<`.
    """
    windows = settings.windows
    normalised = _normalised("sentence", settings)
    template = Environment().from_string(_TRANSFORMERS if to == "hf" else _CTRANSLATE2)
    return (
        template.render(
            windows=windows.size > 1,
            before=windows.before,
            target_first="first" if windows.target[0] == windows.before else f"max(0, i - {windows.target[0]}) ",
            beam=settings.decoding.beam,
            length_penalty=settings.decoding.length_penalty,
            longest=longest,
            prefix=prefix,
            normalised=normalised,
            prepared=f'"{prefix}" + {normalised}' if prefix else normalised,
        ).lstrip()
        + "\n"
    )


def _normalised(text: str, settings: Settings) -> str:
    """Python code that normalises a sentence as the tokenizer of the run does."""
    how = settings.data.normalisation
    if how.unicode == "none":
        return f"{text}.lower()" if how.lowercase else text
    form = f"unicodedata.normalize({how.unicode!r}, {text})"
    return f"unicodedata.normalize({how.unicode!r}, {form}.lower())" if how.lowercase else form

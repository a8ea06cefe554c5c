"""`focat export`: a folder that transformers or CTranslate2 loads as it is, with tokenizer and model card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from focat.choices import ExportFormat, Quantization
from focat.config.schema import Settings
from focat.errors import FocatError, ParameterError
from focat.files import atomic_folder, check_new_folder, check_own_files, read_json_object, write_atomic
from focat.interop.export_ctranslate2 import write_ctranslate2
from focat.interop.export_hf import hf_class, write_hf
from focat.interop.model_card import model_card
from focat.interop.tokens import WINDOWS_KEY, one_vocabulary
from focat.run import Run

_FILES = {  # all that an exported model may consist of
    *("README.md", "config.json", "source.spm", "target.spm"),
    *("model.safetensors", "generation_config.json", "tokenizer_config.json", "vocab.json", "target_vocab.json"),
    *("model.bin", "shared_vocabulary.json", "source_vocabulary.json", "target_vocabulary.json"),
}


def export_run(
    run: Run,
    to: ExportFormat,
    folder: Path,
    quantization: Quantization = "float32",
    results: Sequence[Path] = (),
    overwrite: bool = False,
) -> None:
    """Write a run as a model of another toolkit.

    Args:
        run: a trained run; the weights are those that `focat translate` uses.
        to: hf for transformers, ct2 for CTranslate2.
        folder: is created, complete or not at all.
        quantization: type of the weights of a CTranslate2 model.
        results: files of `focat contrast --json` and `focat evaluate --json`, whose figures the model card shows.
        overwrite: replace an earlier export.

    Raises:
        FocatError: the other toolkit cannot compute what the run computes, or the folder exists.
    """
    settings = run.settings
    _check_structure(settings)
    if to == "hf":
        if quantization != "float32":
            raise ParameterError("quantization", quantization, "is for CTranslate2 only; the format hf has float32")
        hf_class(settings.model, one_vocabulary(run.tokenizer))
    _check_folder(folder, overwrite)
    model, tokenizer = run.load_model(), run.tokenizer
    positions = 2 * settings.windows.max_tokens  # source windows have up to max_tokens; translations may be longer
    card = model_card(run, to, positions, results)
    with atomic_folder(folder) as partial:
        if to == "hf":
            write_hf(model, tokenizer, settings, partial, positions)
        else:
            write_ctranslate2(model, tokenizer, partial, positions, quantization)
        write_atomic(partial / "source.spm", tokenizer.source.model)
        write_atomic(partial / "target.spm", tokenizer.target.model)
        write_atomic(partial / "README.md", card)


def _check_structure(settings: Settings) -> None:
    """Refuse what depends on segments in the model itself: other toolkits know tokens and positions only."""
    model = settings.model
    instead = "train without it, as in focat:s4to4-cd"
    if model.shift:
        raise FocatError(
            f"model.shift = {model.shift}: transformers and CTranslate2 count positions 0, 1, 2 …, without a shift "
            f"between sentences; {instead}"
        )
    if model.segment_embeddings != "none":
        raise FocatError(
            f"model.segment_embeddings = {model.segment_embeddings}: transformers and CTranslate2 have none; {instead}"
        )
    if model.attention != "full":
        raise FocatError(
            f"model.attention = {model.attention}: in transformers and CTranslate2 every token attends to the whole "
            f"window; {instead}"
        )
    if model.context is not None or model.second_pass is not None:
        raise FocatError(
            f"model.{'second_pass' if model.context is None else 'context'}: transformers and CTranslate2 have no "
            "attention to context that is encoded apart; train a system that encodes windows whole, as focat:s4to4-cd"
        )
    if model.positions == "rotary":
        raise FocatError(
            "model.positions = rotary: no encoder-decoder class of transformers or CTranslate2 that fits has them; "
            "train with model.positions=sinusoidal"
        )


def _check_folder(folder: Path, overwrite: bool) -> None:
    """Refuse to replace anything, or with `overwrite`, anything but an earlier export."""
    check_new_folder(folder)
    if not folder.parent.is_dir():
        raise FocatError(f"{folder}: there is no folder {folder.parent}")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not overwrite:
        raise FocatError(f"{folder}: exists; give another folder, or overwrite it")
    try:
        exported = WINDOWS_KEY in read_json_object(folder / "config.json", "")
    except FocatError:
        exported = False
    if not exported:
        raise FocatError(f"{folder}: holds no exported model, so it is not replaced; give another folder")
    check_own_files(folder, _FILES, "focat export")

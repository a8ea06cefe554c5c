"""What cannot be imported is refused in one line, and nothing is written."""

from __future__ import annotations

import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from focat.errors import FocatError, ParameterError
from focat.interop.import_model import import_model
from tests.interop.marian_models import random_marian, save_ctranslate2, save_npz

LANGUAGES = {"source_language": "en", "target_language": "de"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each toolkit: hf/, ct2/, marian/."""
    folder = tmp_path_factory.mktemp("models")
    model = random_marian(folder / "hf")
    save_ctranslate2(folder / "hf", folder / "ct2", "int8")
    save_npz(model, folder / "hf", folder / "marian")
    random_marian(folder / "languages", languages=True)
    return folder


def refused(models: Path, tmp_path: Path, name: str, damage: Callable[[Path], Any], **languages: str | None) -> str:
    """The error about a copy of a model that was damaged; it is one line, and leaves nothing behind."""
    folder, output = tmp_path / name, tmp_path / "runs" / "run"
    shutil.copytree(models / name, folder)
    path = damage(folder)
    with pytest.raises(FocatError) as error:
        import_model(path if isinstance(path, Path) else folder, output, **(LANGUAGES | languages))
    assert "\n" not in str(error.value)
    assert not output.parent.exists()
    return str(error.value)


def change_json(name: str, **changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(content | changes))

    return change


def cut(name: str, share: float = 0.5) -> Callable[[Path], None]:
    def truncate(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return truncate


def change_weights(name: str, change: Callable[[torch.Tensor], torch.Tensor] | None) -> Callable[[Path], None]:
    """Change a tensor of model.safetensors, or remove it."""

    def changed(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensor = tensors.pop(name, torch.zeros(1))
        save_file(
            tensors if change is None else tensors | {name: change(tensor).contiguous()}, folder / "model.safetensors"
        )

    return changed


def change_npz(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        arrays = dict(np.load(folder / "model.npz"))
        arrays[name] = change(arrays.get(name))
        np.savez(folder / "model.npz", **arrays)

    return changed


def change_options(**changes: Any) -> Callable[[Path], None]:
    """Change options of Marian's training."""

    def change(array: Any) -> Any:
        options = yaml.safe_load(array.tobytes().rstrip(b"\0"))
        changed = options | {name.replace("_", "-"): value for name, value in changes.items()}
        return np.frombuffer(yaml.safe_dump(changed).encode() + b"\0", np.int8)

    return change_npz("special:model.yml", change)


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


FC1 = "model.encoder.layers.0.fc1.weight"
HF = {
    "no vocabulary": (
        remove("vocab.json"),
        "vocab.json: cannot be read (No such file or directory); get the model again",
    ),
    "no SentencePiece": (remove("source.spm"), "has no source.spm and target.spm; put the SentencePiece models"),
    "no SentencePiece model": (cut("source.spm"), "source.spm: is not a SentencePiece model"),
    "no weights": (remove("model.safetensors"), "has no model.safetensors and no pytorch_model.bin"),
    "truncated weights": (cut("model.safetensors"), "model.safetensors: is truncated or damaged"),
    "another architecture": (
        change_json("config.json", model_type="bart"),
        "is a model of type bart; focat imports marian",
    ),
    "no scaling": (change_json("config.json", scale_embedding=False), "scale_embedding is false, and focat scales"),
    "normalised embeddings": (change_json("config.json", normalize_embedding=True), "normalize_embedding is set"),
    "another activation": (
        change_json("config.json", activation_function="tanh"),
        "activation_function is tanh; focat has",
    ),
    "two numbers of heads": (
        change_json("config.json", decoder_attention_heads=2),
        "attention_heads is 4 in the encoder and 2",
    ),
    "no number": (change_json("config.json", d_model="wide"), "config.json: d_model is wide, and no size"),
    "another width": (change_json("config.json", d_model=64), "its source embedding is"),
    "more layers": (
        change_json("config.json", encoder_layers=3),
        "has no model.encoder.layers.2.self_attn.q_proj.weight",
    ),
    "fewer layers": (change_json("config.json", encoder_layers=1), "weights that focat's Transformer has no place for"),
    "fewer words": (change_json("vocab.json", **{"<more>": 10_000}), "pieces do not have the ids 0 to"),
    "no word for the unknown": (change_json("tokenizer_config.json", unk_token="<?>"), "vocab.json: lists no <?>"),
    "no such start": (change_json("config.json", decoder_start_token_id=10_000), "decoder_start_token_id is 10000"),
    "a missing weight": (change_weights(FC1, None), f"has no {FC1}: it is incomplete, or of another architecture"),
    "another shape": (change_weights(FC1, lambda w: w[:-1]), "up_proj.weight is 63×32, but its settings ask for 64×32"),
    "no numbers": (change_weights(FC1, lambda w: w / 0), f"{FC1} holds values that are not finite"),
    "an unknown weight": (
        change_weights("model.adapter", lambda w: w),
        "has model.adapter that focat's Transformer has no place for",
    ),
    "heads that do not fit": (
        change_json("config.json", encoder_attention_heads=5, decoder_attention_heads=5),
        "d_model",
    ),
    "a number for a matrix": (
        change_weights(FC1, lambda _: torch.tensor(1.0)),
        f"the shapes of {FC1} do not fit (a number)",
    ),
    "a vector for a table": (
        change_weights("model.shared.weight", lambda w: w[0]),
        "model.shared.weight has 1 dimensions",
    ),
    "no longest": (
        change_json("config.json", max_position_embeddings="far"),
        "is far, and no size",
    ),
    "JSON that is none": (cut("config.json"), "config.json: cannot be read (it is no JSON)"),
}


@pytest.mark.parametrize("case", HF)
def test_hugging_face(models: Path, tmp_path: Path, case: str) -> None:
    damage, message = HF[case]
    assert message in refused(models, tmp_path, "hf", damage)


def test_pickle_is_not_run(models: Path, tmp_path: Path) -> None:
    def as_pickle(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        torch.save({**tensors, "bad": _Evil(tmp_path / "ran")}, folder / "pytorch_model.bin")

    assert "pytorch_model.bin: is truncated or damaged" in refused(models, tmp_path, "hf", as_pickle)
    assert not (tmp_path / "ran").exists()


class _Evil:
    """What pickle would call when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_pickle_with_weights_is_the_same_model(models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / "hf", tmp_path / "hf")
    tensors = load_file(tmp_path / "hf/model.safetensors")
    (tmp_path / "hf/model.safetensors").unlink()
    tensors["model.encoder.embed_positions.weight"] = torch.zeros(64, 32)  # as first versions of the class saved it
    torch.save(tensors, tmp_path / "hf/pytorch_model.bin")
    weights = []
    for folder in (models / "hf", tmp_path / "hf"):
        import_model(folder, tmp_path / f"run{len(weights)}")
        weights.append((tmp_path / f"run{len(weights)}/checkpoints/0000000/weights.safetensors").read_bytes())
    assert weights[0] == weights[1]


CT2 = {
    "no vocabulary": (remove("shared_vocabulary.json"), "has no source_vocabulary.json and no shared_vocabulary.json"),
    "a damaged vocabulary": (cut("shared_vocabulary.json"), "shared_vocabulary.json: is no list of pieces"),
    "no SentencePiece": (remove("target.spm"), "has no source.spm and target.spm"),
    "truncated weights": (cut("model.bin"), "model.bin: is truncated, or no model of CTranslate2"),
    "nearly whole weights": (cut("model.bin", 0.999), "model.bin: is truncated, or no model of CTranslate2"),
    "an empty file": (cut("model.bin", 0), "model.bin: is truncated, or no model of CTranslate2"),
    "an end that is no text": (change_json("config.json", eos_token=["</s>"]), "lists no ['</s>'], which config.json"),
    "another end": (change_json("config.json", eos_token="<end>"), "lists no <end>, which config.json names"),
}


@pytest.mark.parametrize("case", CT2)
def test_ctranslate2(models: Path, tmp_path: Path, case: str) -> None:
    damage, message = CT2[case]
    assert message in refused(models, tmp_path, "ct2", damage)


def test_other_models_of_ctranslate2(models: Path, tmp_path: Path) -> None:
    def header(version: int, name: bytes, revision: int) -> Callable[[Path], None]:
        def change(folder: Path) -> None:
            content = (folder / "model.bin").read_bytes()
            rest = content[4 + 2 + len(b"TransformerSpec") + 1 + 4 :]
            start = struct.pack("<IH", version, len(name) + 1) + name + b"\0" + struct.pack("<I", revision)
            (folder / "model.bin").write_bytes(start + rest)

        return change

    cases = {
        (9, b"TransformerSpec", 7): "is of version 9, and focat reads 4 to 6",
        (6, b"TransformerDecoderSpec", 8): "is a TransformerDecoderSpec; focat imports encoder-decoder",
        (6, b"TransformerSpec", 3): "is of revision 3, and focat reads 7; convert the model again",
    }
    for i, (values, message) in enumerate(cases.items()):
        assert message in refused(models, tmp_path / str(i), "ct2", header(*values))


def test_argos(models: Path, tmp_path: Path) -> None:
    def package(*names: str, cut_at: float = 1.0) -> Callable[[Path], Path]:
        def pack(folder: Path) -> Path:
            path = folder / "model.argosmodel"
            with zipfile.ZipFile(path, "w") as archive:
                for name in names:
                    archive.write(models / "ct2" / Path(name).name, name)
            path.write_bytes(path.read_bytes()[: int(path.stat().st_size * cut_at)])
            return path

        return pack

    cases = [
        (package("a/model/config.json"), "model.argosmodel: has 0 files model.bin"),
        (package("a/model/model.bin"), "model.argosmodel: has no source.spm"),
        (package("a/model/model.bin", cut_at=0.5), "model.argosmodel: is damaged, or no .argosmodel"),
    ]
    for i, (damage, message) in enumerate(cases):
        assert message in refused(models, tmp_path / str(i), "ct2", damage)


MARIAN = {
    "no vocabulary": (remove("vocab.yml"), "vocab.yml: is missing, and the model's vocabulary; put it there"),
    "no SentencePiece": (remove("source.spm"), "has no source.spm and target.spm"),
    "truncated weights": (cut("model.npz"), "model.npz: is truncated, or no .npz of Marian"),
    "a simpler recurrent unit": (
        change_options(transformer_decoder_autoreg="rnn"),
        "decoder-autoreg is 'rnn'; focat's Transformer is 'self-attention'",
    ),
    "a recurrent network": (change_options(type="amun"), "its option type is 'amun'"),
    "another order of norms": (change_options(transformer_preprocess="d"), "are ('d', 'dan', '')"),
    "integers": (
        change_npz("Wemb", lambda w: w.astype(np.int8)),
        "Wemb is in int8; focat reads models of Marian in float32",
    ),
    "no options": (change_npz("special:model.yml", lambda _: np.zeros(3, np.int8)), "special:model.yml cannot be read"),
    "a vector for a table": (change_npz("Wemb", lambda w: w[0]), "Wemb has 1 dimensions, and should be a matrix"),
    "matrices that do not fit": (
        change_npz("encoder_l1_self_Wq", lambda w: w[1:]),
        "do not fit (32×31, 32×32, 32×32)",
    ),
    "other rows": (change_npz("Wemb", lambda w: w[:-1]), "but vocab.yml lists"),
    "a damaged vocabulary": (cut("vocab.yml", 0.501), "vocab.yml"),
}


@pytest.mark.parametrize("case", MARIAN)
def test_marian(models: Path, tmp_path: Path, case: str) -> None:
    damage, message = MARIAN[case]
    assert message in refused(models, tmp_path, "marian", damage)


def test_a_multilingual_model_needs_a_language_of_its_own(models: Path, tmp_path: Path) -> None:
    nothing: Callable[[Path], None] = lambda folder: None  # noqa: E731
    message = refused(models, tmp_path / "a", "languages", nothing, target_language=None)
    assert "translates to several languages; give target_language, one of" in message
    with pytest.raises(ParameterError, match=r"is no language of this model, which has (deu, nld|nld, deu)"):
        import_model(models / "languages", tmp_path / "run", target_language="fra")


def test_other_paths(models: Path, tmp_path: Path) -> None:
    nothing: Callable[[Path], None] = lambda folder: None  # noqa: E731
    assert "does not say its languages; give source_language" in refused(
        models, tmp_path, "marian", nothing, source_language=None
    )
    for path, message in (
        (tmp_path / "nowhere", "there is no such file or folder"),
        (tmp_path, "holds no model that focat imports"),
        (models / "hf" / "vocab.json", "holds no model that focat imports"),
    ):
        with pytest.raises(FocatError, match=message):
            import_model(path, tmp_path / "run")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(FocatError, match="full: exists; give another folder for the run"):
        import_model(models / "hf", tmp_path / "full")
    assert [file.name for file in (tmp_path / "full").iterdir()] == ["file"]

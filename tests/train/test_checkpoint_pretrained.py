"""Starting from a Hugging Face Llama: the same model here as there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fsdpctl.checkpoints.export import export_hugging_face, export_torch
from fsdpctl.contract.codec import decode
from fsdpctl.contract.trainer.llama.config import LlamaConfig
from tests.services import require
from tests.train.ranks import Config, column, saved_tensors, train
from tests.train.test_checkpoint_export import whole
from train.errors import ConfigError
from train.model.llama.decoder import Llama
from train.model.pretrained.load import load_pretrained

SIZES = {"vocab_size": 128, "d_model": 32, "layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 16, "ffn": 64}


def decoder(**changes: Any) -> Llama:
    model = Llama(decode(LlamaConfig, {**SIZES, "seq_len": 32, **changes}))
    model.fill_buffers()
    return model.eval()


def start_from(model: Llama, path: Path) -> None:
    load_pretrained({f"model.{name}": value.detach() for name, value in model.named_parameters()}, model.config, path)


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def llama(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Path]:
    """Make a small Llama with weights in bf16, over several files, as the hub has them; return it and its directory."""
    require("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=128,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=request.param,
        rms_norm_eps=1e-5,
        **sizes,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "hub", max_shard_size="20KB")
    return model.float().eval(), tmp_path / "hub"


def test_the_same_logits_as_transformers(llama: tuple[Any, Path]) -> None:
    theirs, directory = llama
    assert len(list(directory.glob("*.safetensors"))) > 1
    ours = decoder(tie_embeddings=theirs.config.tie_word_embeddings)
    start_from(ours, directory)
    tokens = torch.randint(0, 128, (3, 32), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, got = theirs(tokens).logits, ours.logits(tokens)
    assert expected.std() > 0.02
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture
def exported(straight_run: Path, tmp_path: Path) -> Path:
    export_hugging_face(whole(straight_run, None), tmp_path / "exported")
    return tmp_path / "exported"


def test_out_and_in_again_is_the_same_to_the_bit(straight_run: Path, exported: Path, tmp_path: Path) -> None:
    export_torch(whole(straight_run, None), tmp_path / "model.pth")
    before = torch.load(tmp_path / "model.pth", weights_only=True)
    model = decoder()
    start_from(model, exported)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_run_starts_from_them_and_resumes_from_its_own(
    straight_run: Path, exported: Path, tmp_path: Path, config: Config
) -> None:
    config.update(init_from=str(exported), steps=4)
    config["optim"] = {"lr": 1e-4}
    ranks = train(tmp_path / "run", config, procs_per_node=2)
    assert f"weights of {exported}" in ranks.log()
    assert saved_tensors(tmp_path / "run", 4)["optimizer.norm.weight.step"] == 4, "a new optimizer begins at 0"
    first, straight = column(tmp_path / "run", "loss")[0], column(straight_run, "loss")
    assert straight[-1] - 0.3 < first < straight[-1] + 0.3 < straight[0] - 0.3  # it continues where the other one ended
    shutil.rmtree(exported)
    ranks = train(tmp_path / "run", {**config, "steps": 6}, procs_per_node=2)
    assert "resuming at step 4" in ranks.log()


def cut(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def lose_a_tensor(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes().replace(b"model.norm.weight", b"model.nose.weight"))


def be_no_safetensors(directory: Path) -> None:
    (directory / "model.safetensors").write_bytes(b"PK" * 100)


def be_nothing(directory: Path) -> None:
    shutil.rmtree(directory)


def configure(**changes: Any) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        path = directory / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "cut short"),
        (lose_a_tensor, "missing: model.norm.weight; 1 tensors are not of this model: model.nose.weight"),
        (be_no_safetensors, "is no safetensors file"),
        (be_nothing, "exported: No such file"),
        (configure(model_type="qwen2"), "type 'qwen2', not 'llama'"),
        (configure(rope_scaling={"rope_type": "llama3", "factor": 8.0}), "scaled"),
        (configure(attention_bias=True), "biases"),
        (configure(hidden_size=None), "--set trainer.model.d_model=null"),
        (configure(intermediate_size=96, rms_norm_eps=1e-6), "ffn=96 --set trainer.model.norm_eps=1e-06"),
    ],
)
def test_what_does_not_fit_is_reported_in_one_line(
    exported: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(exported)
    model = decoder()
    with pytest.raises(ConfigError) as error:
        start_from(model, exported)
    assert str(error.value).startswith(f"init_from {exported}: ")
    assert message in str(error.value)

"""A run starts from any checkpoint: the same bits from each form, at each number of ranks, or one error with all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
import yaml
from torch import Tensor

from fsdpctl.checkpoints.export import export_hugging_face, export_torch
from fsdpctl.contract.codec import decode
from fsdpctl.contract.trainer.hugging_face import hf_rows
from fsdpctl.contract.trainer.llama.config import LlamaConfig
from tests.train.ranks import Config, saved_tensors, train
from tests.train.test_checkpoint_export import whole
from tests.train.test_checkpoint_pretrained import decoder, start_from
from train.errors import ConfigError
from train.model.llama.decoder import Llama
from train.model.pretrained.load import load_pretrained
from train.optim import build_optimizer

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_fsdp"
KEYS = ("exp_avg", "exp_avg_sq", "step")
Tensors = dict[str, Tensor]


def model_of(tensors: Tensors) -> Tensors:
    return {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}


def as_hugging_face(own: Tensors, config: LlamaConfig) -> Tensors:
    return {rows.name: own[name][rows.begin : rows.end].clone() for name in own for rows in hf_rows(name, config)}


def own_sharded(run: Path, out: Path) -> Path:
    return run / "checkpoints" / "step-00000012"


def own_full(run: Path, out: Path) -> Path:
    export_torch(whole(run, None), out / "fsdp_cpt12.pth")
    return out / "fsdp_cpt12.pth"


def hf_directory(run: Path, out: Path) -> Path:
    export_hugging_face(whole(run, None), out / "hf")
    return out / "hf"


def hf_file(run: Path, out: Path) -> Path:
    return hf_directory(run, out) / "model.safetensors"


def hf_full(run: Path, out: Path) -> Path:
    torch.save(as_hugging_face(model_of(saved_tensors(run, 12)), decoder().config), out / "hf.pth")
    return out / "hf.pth"


def wrapped_full(run: Path, out: Path) -> Path:
    state = as_hugging_face(model_of(saved_tensors(run, 12)), decoder().config)
    wrapped = {f"module._orig_mod.{name}": value for name, value in state.items()}
    torch.save({"model": wrapped, "step": 12, "optimizer": {"state": {}}}, out / "wrapped.pth")
    return out / "wrapped.pth"


def foreign_sharded(run: Path, out: Path) -> Path:
    state = as_hugging_face(model_of(saved_tensors(run, 12)), decoder().config)
    dcp.save({"model": state, "optimizer": {"param_groups": [{"lr": 0.1}]}}, checkpoint_id=out / "dcp", no_dist=True)
    return out / "dcp"


FORMS = [own_sharded, own_full, hf_directory, hf_file, hf_full, wrapped_full, foreign_sharded]


@pytest.mark.parametrize("form", FORMS)
def test_the_same_bits_from_each_form(straight_run: Path, tmp_path: Path, form: Callable[[Path, Path], Path]) -> None:
    expected = model_of(saved_tensors(straight_run, 12))
    model = decoder()
    start_from(model, form(straight_run, tmp_path))
    found = model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("form", [own_sharded, hf_full])
def test_the_same_bits_at_another_number_of_ranks(
    straight_run: Path, tmp_path: Path, config: Config, form: Callable[[Path, Path], Path]
) -> None:
    """A learning rate this small changes no bit, so the first checkpoint has what the run has started from."""
    with_optimizer = form is own_sharded
    config.update(init_from=str(form(straight_run, tmp_path)), init_optimizer=with_optimizer, steps=1)
    config["optim"] = {"lr": 1e-30}
    config["eval"] = {"sequences": 0}
    ranks = train(tmp_path / "run", config, nodes=2, procs_per_node=2)
    assert f"weights{' and optimizer' if with_optimizer else ''} of {config['init_from']}" in ranks.log()
    expected, found = saved_tensors(straight_run, 12), saved_tensors(tmp_path / "run", 1)
    assert all(torch.equal(found[name], expected[name]) for name in expected if name.startswith("model."))
    assert found["optimizer.norm.weight.step"] == (13 if with_optimizer else 1)


def targets(model: Llama) -> Tensors:
    optimizer = build_optimizer(model, decode_optim())
    tensors = {f"model.{name}": value.detach() for name, value in model.named_parameters()}
    for name, parameter in model.named_parameters():
        tensors |= {f"optimizer.{name}.{key}": optimizer.state[parameter][key] for key in KEYS}
    return tensors


def decode_optim() -> Any:
    from fsdpctl.contract.trainer.trainer_config import OptimConfig

    return decode(OptimConfig, {"lr": 1e-3})


def test_from_both_checkpoints_of_the_example(tmp_path: Path) -> None:
    """It runs without torchrun, resumes the one from the other, and has the loss of the bundled decoder."""
    settings = yaml.safe_load((EXAMPLE / "config" / "tiny_fsdp.yaml").read_text())
    for kind, steps in (("full", 2), ("sharded", 4)):
        changed = {**settings, "steps": steps, "save_every": 2, "checkpoint_type": kind}
        (tmp_path / f"{kind}.yaml").write_text(yaml.safe_dump(changed))
        words = ["--resume_from", "checkpoints/fsdp_cpt2.pth"] if kind == "sharded" else []
        command = [sys.executable, str(EXAMPLE / "train_fsdp.py"), f"{kind}.yaml", *words]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        assert f"step {steps}/{steps}  loss " in done.stdout
        assert ("step 1/" in done.stdout) == (kind == "full")
    full, sharded = (tmp_path / "checkpoints" / f"fsdp_cpt{step}.pth" for step in (2, 4))
    sizes = {"vocab_size": 256, "heads": 2, "kv_heads": 1, "head_dim": 16, "ffn": 64}
    models = [decoder(**sizes), decoder(**sizes)]
    tensors = [targets(model) for model in models]
    for path, ours in zip((full, sharded), tensors, strict=True):
        load_pretrained(ours, models[0].config, path)
    saved = torch.load(full, weights_only=True)
    theirs = as_hugging_face(model_of(tensors[0]), models[0].config)
    assert saved["model"].keys() == theirs.keys()
    assert all(torch.equal(saved["model"][name], theirs[name]) for name in theirs)
    moments = saved["optimizer"]["state"]["model.layers.1.self_attn.k_proj.weight"]
    assert torch.equal(tensors[0]["optimizer.blocks.1.attention.qkv.weight.exp_avg"][32:48], moments["exp_avg"])
    assert [int(ours["optimizer.norm.weight.step"]) for ours in tensors] == [2, 4]
    assert not torch.equal(tensors[0]["model.norm.weight"], tensors[1]["model.norm.weight"])


def test_everything_that_does_not_fit_is_in_one_error(straight_run: Path, tmp_path: Path) -> None:
    state = torch.load(hf_full(straight_run, tmp_path), weights_only=True)
    for layer in range(2):
        del state[f"model.layers.{layer}.mlp.up_proj.weight"], state[f"model.layers.{layer}.mlp.gate_proj.weight"]
        state[f"model.layers.{layer}.self_attn.q_proj.bias"] = torch.zeros(32)
        state[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = torch.zeros(8)  # of older transformers: no harm
    state["lm_head.weight"] = torch.zeros(100, 32)
    torch.save(state, tmp_path / "wrong.pth")
    with pytest.raises(ConfigError) as error:
        start_from(decoder(), tmp_path / "wrong.pth")
    assert str(error.value) == (
        f"init_from {tmp_path / 'wrong.pth'}: they do not fit to trainer.model: 4 tensors are missing: "
        "model.layers.0.mlp.gate_proj.weight, model.layers.0.mlp.up_proj.weight, model.layers.1.mlp.gate_proj.weight, "
        "... (1 more); 2 tensors are not of this model: model.layers.0.self_attn.q_proj.bias, "
        "model.layers.1.self_attn.q_proj.bias; 1 tensors are of another shape: "
        "lm_head.weight has [100, 32], wanted [128, 32]"
    )


def test_a_head_of_its_own_is_not_lost_in_a_tied_model(tmp_path: Path) -> None:
    state = as_hugging_face(dict(decoder().state_dict()), decoder().config)
    torch.save(state, tmp_path / "untied.pth")
    with pytest.raises(ConfigError, match=r"lm_head\.weight differ, but trainer\.model\.tie_embeddings is true"):
        start_from(decoder(tie_embeddings=True), tmp_path / "untied.pth")
    torch.save({**state, "lm_head.weight": state["model.embed_tokens.weight"]}, tmp_path / "tied.pth")
    start_from(decoder(tie_embeddings=True), tmp_path / "tied.pth")


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


def evil_full(path: Path, trace: Path) -> None:
    torch.save({"embed.weight": Evil(trace)}, path)


def evil_entry(path: Path, trace: Path) -> None:
    """Have an entry that is no tensor under the name of one."""
    dcp.save({"embed.weight": Evil(trace)}, checkpoint_id=path, no_dist=True)
    trace.unlink(missing_ok=True)


def no_file_of_torch(path: Path, trace: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\n")


def cut_short(path: Path, trace: Path) -> None:
    torch.save({"embed.weight": torch.zeros(1000)}, path)
    path.write_bytes(path.read_bytes()[:-100])


def numbers(path: Path, trace: Path) -> None:
    torch.save({name: value.int() for name, value in decoder().state_dict().items()}, path)


def several(path: Path, trace: Path) -> None:
    torch.save({"teacher": decoder().state_dict(), "student": decoder().state_dict()}, path)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (evil_full, "more than tensors and plain values"),
        (evil_entry, "no tensor there is named embed.weight or model.embed_tokens.weight; it has none"),
        (no_file_of_torch, "no whole file of torch.save"),
        (cut_short, "no whole file of torch.save"),
        (numbers, "embed.weight is of torch.int32, no floating-point numbers"),
        (several, "several models, under teacher., student."),
    ],
)
def test_what_cannot_be_read_is_one_line_and_runs_no_code(
    tmp_path: Path, write: Callable[[Path, Path], None], message: str
) -> None:
    path, trace = tmp_path / "weights", tmp_path / "trace"
    write(path, trace)
    with pytest.raises(ConfigError) as error:
        start_from(decoder(), path)
    assert str(error.value).startswith(f"init_from {path}: ") and "\n" not in str(error.value)
    assert message in str(error.value)
    assert not trace.exists()

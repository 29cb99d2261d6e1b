"""`--smoke`: the same job, launcher, mesh, data and checkpoint path, with a tiny model and a few steps."""

from __future__ import annotations

from dataclasses import replace

from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.errors import UsageError
from fsdpctl.specs.job import JobSpec

STEPS = 8
MAX_LAYERS, MAX_HEADS, MAX_HEAD_DIM, MAX_FFN, MAX_SEQ_LEN = 2, 2, 32, 256, 32


def shrink(job: JobSpec) -> JobSpec:
    """Return the job with a tiny model of the same kind. Vocabulary, mesh, data, precision and tying stay."""
    if job.trainer is None:
        raise UsageError(f"job {job.name} has an entrypoint of its own: --smoke is for the bundled trainer only")
    try:
        small = _shrink_trainer(job.trainer, MAX_LAYERS)
    except ValueError:  # units or frozen parameters need more layers; many tiny ones cost little more
        small = _shrink_trainer(job.trainer, job.trainer.model.layers)
    return job.model_copy(update={"trainer": small, "restarts": 0})


def _shrink_trainer(config: TrainerConfig, max_layers: int) -> TrainerConfig:
    model = config.model
    head_dim = min(model.head_dim, MAX_HEAD_DIM)
    heads = min(model.heads, MAX_HEADS)
    small = replace(
        model,
        d_model=min(model.d_model, heads * head_dim),
        layers=min(model.layers, max_layers),
        heads=heads,
        kv_heads=max(1, heads * model.kv_heads // model.heads),
        head_dim=head_dim,
        ffn=min(model.ffn, MAX_FFN),
        seq_len=min(model.seq_len, MAX_SEQ_LEN),
    )
    return replace(
        config,
        model=small,
        steps=STEPS,
        init_from=None,
        log_every=1,
        optim=replace(config.optim, warmup_steps=min(config.optim.warmup_steps, STEPS // 4)),
        checkpoint=replace(config.checkpoint, every_steps=STEPS // 2),
        eval=replace(config.eval, sequences=min(config.eval.sequences, 16), every_steps=None),
    )

"""`--smoke`: the same job, launcher, mesh, data and checkpoint path, with a tiny model and a few steps."""

from __future__ import annotations

from dataclasses import replace

from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.errors import UsageError
from fsdpctl.specs.job import JobSpec

STEPS = 8


def shrink(job: JobSpec) -> JobSpec:
    """Return the job with a tiny model of the same kind. Vocabulary, mesh, data, precision and tying stay."""
    if job.trainer is None:
        raise UsageError(
            f"job {job.name} has an entrypoint of its own: --smoke makes the model of the bundled trainer smaller",
            hint="--rehearse runs your script on this machine first, until its first step or an error",
        )
    try:
        small = _shrink_trainer(job.trainer, job.trainer.model.shrunk())
    except ValueError:  # units or frozen parameters need more layers; many tiny ones cost little more
        small = _shrink_trainer(job.trainer, job.trainer.model.shrunk(max_layers=job.trainer.model.layers))
    return job.model_copy(update={"trainer": small, "restarts": 0})


def _shrink_trainer(config: TrainerConfig, small: ModelConfig) -> TrainerConfig:
    first_step = config.profile.first_step
    return replace(
        config,
        model=small,
        batch=replace(config.batch, micro_batch=config.batch.limit),
        steps=STEPS,
        init_from=None,
        init_optimizer=False,
        log_every=1,
        optim=replace(config.optim, warmup_steps=min(config.optim.warmup_steps, STEPS // 4)),
        checkpoint=replace(config.checkpoint, every_steps=STEPS // 2),
        profile=replace(config.profile, first_step=min(first_step, STEPS) if first_step is not None else None),
        eval=replace(config.eval, sequences=min(config.eval.sequences, 16), every_steps=None),
    )

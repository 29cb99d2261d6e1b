"""The key `lint` of jobs and profiles, and the ids of all rules of `fsdpctl/lint/`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator

from fsdpctl.contract.problems import broken_rule
from fsdpctl.schema.problems import did_you_mean, show
from fsdpctl.schema.spec import Spec


class RuleId(StrEnum):
    """The rules, each of which a job or a profile can ignore: an id is never removed, nor given another meaning."""

    HYBRID_ON_ONE_NODE = "hybrid-on-one-node"
    HYBRID_SHARDS_NOTHING = "hybrid-shards-nothing"
    FULL_SHARD_BETWEEN_NODES = "full-shard-between-nodes"
    SHARD_STRADDLES_NODES = "shard-straddles-nodes"
    ONE_LARGE_UNIT = "one-large-unit"
    OFFLOAD_NOT_NEEDED = "offload-not-needed"
    RECOMPUTE_NOT_NEEDED = "recompute-not-needed"
    DOES_NOT_FIT = "does-not-fit"

    MICRO_BATCH_SHRUNK = "micro-batch-shrunk"
    SMALL_MICRO_BATCH = "small-micro-batch"
    EVALUATION_PADDING = "evaluation-padding"
    EVALUATION_COST = "evaluation-cost"
    NO_EVALUATION = "no-evaluation"

    VOCABULARY_SIZE = "vocabulary-size"
    LAYER_WIDTH = "layer-width"
    HEAD_DIM = "head-dim"
    SEQUENCE_LENGTH = "sequence-length"

    FP16 = "fp16"
    EMULATED_BF16 = "emulated-bf16"
    NO_FLOAT8 = "no-float8"
    FP32_ON_GPUS = "fp32-on-gpus"
    BF16_REDUCTION = "bf16-reduction"
    COMPILE_OFF = "compile-off"
    NO_WARMUP = "no-warmup"
    MANY_SKIPPED_STEPS = "many-skipped-steps"

    KEY_WITHOUT_EFFECT = "key-without-effect"
    LONG_TRACE = "long-trace"
    MEMORY_HISTORY = "memory-history"

    NO_CHECKPOINTS = "no-checkpoints"
    SHORT_GRACE = "short-grace"
    RARE_SAVES = "rare-saves"
    FREQUENT_SAVES = "frequent-saves"
    NO_SAVE_BEFORE_END = "no-save-before-end"
    KEEP_ONE = "keep-one"
    LOCAL_RUN_ROOT = "local-run-root"
    HOME_RUN_ROOT = "home-run-root"
    SMALL_HOST_MEMORY = "small-host-memory"

    NO_RESTARTS = "no-restarts"
    SPARES_WITHOUT_RESTARTS = "spares-without-restarts"
    NO_REQUEUES = "no-requeues"
    NO_TIME_LIMIT = "no-time-limit"
    LONG_HANG_LIMIT = "long-hang-limit"
    SHORT_PEER_TIMEOUT = "short-peer-timeout"

    IB_DISABLED = "ib-disabled"
    NVLINK_DISABLED = "nvlink-disabled"
    FORCED_ALGORITHM = "forced-algorithm"
    LOCAL_INTERFACE = "local-interface"
    INTERFACE_IN_ENV = "interface-in-env"
    LOOPBACK_HEAD = "loopback-head"
    LOOPBACK_ALLOWED = "loopback-allowed"
    EPHEMERAL_PORTS = "ephemeral-ports"

    SECRET_IN_ENV = "secret-in-env"
    UNEXPANDED_VARIABLE = "unexpanded-variable"
    DEBUG_LEFT_ON = "debug-left-on"
    BLOCKING_LAUNCHES = "blocking-launches"
    IGNORED_ERRORS = "ignored-errors"
    RENAMED_VARIABLE = "renamed-variable"
    DETERMINISTIC_LEFT_ON = "deterministic-left-on"
    VISIBLE_GPUS = "visible-gpus"

    IDLE_GPUS = "idle-gpus"
    UNEVEN_GPUS = "uneven-gpus"
    ONE_CPU = "one-cpu"
    TOO_MANY_THREADS = "too-many-threads"
    TOO_MANY_WORKERS = "too-many-workers"
    MOVING_IMAGE = "moving-image"
    SETUP_INSTALLS = "setup-installs"
    WORLD_WRITABLE = "world-writable"


def parse_rule_id(value: object) -> RuleId:
    """Return the rule of an id. Raise RuleError with the most similar id for anything else."""
    if isinstance(value, str) and value in set(RuleId):
        return RuleId(value)
    similar = did_you_mean(value, RuleId) if isinstance(value, str) else ""
    raise broken_rule(f"no rule has the id {show(value)}{similar or ';'} `fsdpctl jobs rules` lists them")


LintRuleId = Annotated[RuleId, BeforeValidator(parse_rule_id)]


class LintKeys(Spec):
    """What `fsdpctl jobs check` and `submit` do not report."""

    ignore: tuple[LintRuleId, ...] = ()
    """Ids of rules that are not applied; [lint.md](lint.md) lists them."""

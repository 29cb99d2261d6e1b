"""For each rule, settings that it reports, and settings close to them that it does not."""

from __future__ import annotations

from dataclasses import dataclass, field

from fsdpctl.specs.lint import RuleId

TRAINER = """
name: clean
nodes: 2
time_limit: 24h
grace: 5m
restarts: 10
trainer:
  steps: 20000
  model: {vocab_size: 32768, d_model: 1024, layers: 20, heads: 8, kv_heads: 4, head_dim: 128, ffn: 2816, seq_len: 2048}
  batch: {sequences: 256, micro_batch: 16}
  optim: {lr: 6.0e-4, warmup_steps: 300}
  checkpoint: {every_steps: 500, keep: 3}
  eval: {sequences: 256, every_steps: 500}
"""
LARGE = (
    "trainer.model.d_model=4096",
    "trainer.model.layers=32",
    "trainer.model.heads=32",
    "trainer.model.ffn=11008",
    "trainer.checkpoint.every_steps=100",
)
"""6 billion parameters."""
ONE_SEQUENCE = ("trainer.batch.micro_batch=1", "trainer.batch.sequences=16")
ON_THREE_NODES = ("nodes=3", "trainer.batch.sequences=384", "trainer.eval.sequences=384")
SCRIPT = """
name: clean
nodes: 2
time_limit: 24h
restarts: 10
entrypoint: {script: train.py}
"""
SLURM = """
name: cluster
backend: {kind: slurm, exclusive: true, time: 24h}
gpus_per_node: 8
runs_root: /shared/runs
network: {ib_hcas: [mlx5_0, mlx5_1]}
"""
SSH = """
name: cluster
backend: ssh
nodes:
  - {id: a, address: 10.0.0.1}
  - {id: b, address: 10.0.0.2}
gpus_per_node: 8
runs_root: /shared/runs
"""
CONTAINER = ("environment={kind: apptainer, image: /shared/llm.sif}",)
CPUS = SLURM.replace("gpus_per_node: 8", "gpus_per_node: 0").replace("network: {ib_hcas: [mlx5_0, mlx5_1]}", "")


@dataclass(frozen=True)
class Given:
    """A clean job and profile, with some keys changed as by `--set`."""

    job: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    job_text: str = TRAINER
    profile_text: str = SLURM


@dataclass(frozen=True)
class Case:
    """`found` is reported by the rule, and by no other one; `quiet` by none."""

    rule: RuleId
    key: str
    found: Given
    quiet: Given = field(default_factory=Given)


def job(*changes: str, text: str = TRAINER, on: str = SLURM) -> Given:
    return Given(changes, (), text, on)


def profile(*changes: str, text: str = SLURM, of: str = TRAINER) -> Given:
    return Given((), changes, of, text)


def script(*changes: str, profile: tuple[str, ...] = ()) -> Given:
    return Given(changes, profile, SCRIPT)


ARGS = "args[0]"
CASES = [
    # Memory
    Case(
        RuleId.DOES_NOT_FIT,
        "trainer.mesh.strategy",
        Given((*LARGE, *ONE_SEQUENCE, "trainer.mesh.strategy=DDP"), ("gpu=h100-80",)),
        Given((*LARGE, *ONE_SEQUENCE, "trainer.mesh.strategy=HYBRID_SHARD"), ("gpu=h200",)),
    ),
    # Sharding
    Case(
        RuleId.HYBRID_ON_ONE_NODE,
        "trainer.mesh.strategy",
        job("nodes=1", "trainer.mesh.strategy=HYBRID_SHARD"),
        job("nodes=1"),  # the default is no choice
    ),
    Case(
        RuleId.HYBRID_ON_ONE_NODE,
        "trainer.mesh.strategy",
        job("nodes=1", "trainer.mesh={replicate: 2, shard: 4}"),
        job("trainer.mesh={replicate: 4, shard: 4}"),
    ),
    Case(
        RuleId.HYBRID_SHARDS_NOTHING,
        "trainer.mesh.strategy",
        Given(("procs_per_node=1",), ("gpus_per_node=1",)),
        Given(("procs_per_node=1", "trainer.mesh.strategy=NO_SHARD"), ("gpus_per_node=1",)),
    ),
    Case(
        RuleId.FULL_SHARD_BETWEEN_NODES,
        "trainer.mesh.strategy",
        job("trainer.mesh.strategy=FULL_SHARD"),
        job("trainer.mesh.strategy=FULL_SHARD", *LARGE),  # 12 GiB for each GPU of one node
    ),
    Case(
        RuleId.FULL_SHARD_BETWEEN_NODES,
        "trainer.mesh.strategy",
        Given(("trainer.mesh.strategy=FULL_SHARD", *LARGE, *ONE_SEQUENCE), ("gpu=h100-80", "network.gbps=25")),
        Given(
            ("trainer.mesh.strategy=FULL_SHARD", *LARGE, *ONE_SEQUENCE), ("gpu=h100-80", "network.gbps=3200")
        ),  # hidden by compute
    ),
    Case(
        RuleId.SHARD_STRADDLES_NODES,
        "trainer.mesh.shard",
        job("trainer.mesh={replicate: 4, shard: 6}", *ON_THREE_NODES),
        job("trainer.mesh={replicate: 6, shard: 4}", *ON_THREE_NODES),
    ),
    Case(
        RuleId.ONE_LARGE_UNIT,
        "trainer.mesh.units",
        job("trainer.mesh.units.blocks=0", *LARGE),
        job("trainer.mesh.units.blocks=0"),
    ),
    Case(
        RuleId.OFFLOAD_NOT_NEEDED,
        "trainer.memory.cpu_offload",
        job("trainer.memory.cpu_offload=true"),
        job("trainer.memory.cpu_offload=true", *LARGE),
    ),
    Case(
        RuleId.RECOMPUTE_NOT_NEEDED,
        "trainer.memory.recompute",
        job("trainer.memory.recompute=full", "trainer.batch.micro_batch=2"),
        job("trainer.memory.recompute=full"),
    ),
    Case(
        RuleId.RECOMPUTE_NOT_NEEDED,
        "trainer.memory.recompute",
        Given((*LARGE, *ONE_SEQUENCE, "trainer.memory.recompute=full"), ("gpu=h100-80",)),
        Given((*LARGE, "trainer.batch.micro_batch=8", "trainer.memory.recompute=full"), ("gpu=h100-80",)),
    ),
    # Batch and evaluation
    Case(
        RuleId.MICRO_BATCH_SHRUNK,
        "trainer.batch.micro_batch",
        job("trainer.batch.sequences=368", "trainer.eval.sequences=16"),  # 23 for each rank, a prime
        job("trainer.batch.sequences=384", "trainer.eval.sequences=384"),  # 24: micro-batches of 12
    ),
    Case(
        RuleId.SMALL_MICRO_BATCH,
        "trainer.batch.micro_batch",
        job("trainer.batch.micro_batch=1", "trainer.model.seq_len=1024"),
        job("trainer.batch.micro_batch=1"),
    ),
    Case(
        RuleId.SMALL_MICRO_BATCH,
        "trainer.batch.micro_batch",
        job("trainer.batch.micro_batch=1", "trainer.mesh.strategy=FULL_SHARD", *LARGE),
        job("trainer.batch.micro_batch=4", "trainer.mesh.strategy=FULL_SHARD", *LARGE),
    ),
    Case(
        RuleId.EVALUATION_PADDING,
        "trainer.eval.sequences",
        job("trainer.eval.sequences=100"),  # of 16 ranks x 16
        job("trainer.eval.sequences=200"),
    ),
    Case(
        RuleId.EVALUATION_COST,
        "trainer.eval.every_steps",
        job("trainer.eval={sequences: 4096, every_steps: 20}"),
        job("trainer.eval={sequences: 4096, every_steps: 100}"),
    ),
    Case(
        RuleId.NO_EVALUATION,
        "trainer.eval.every_steps",
        job("trainer.eval={sequences: 256}"),
        job("trainer.eval={sequences: 256}", "trainer.steps=900"),
    ),
    # Sizes
    Case(
        RuleId.VOCABULARY_SIZE,
        "trainer.model.vocab_size",
        job("trainer.model.vocab_size=50257"),
        job("trainer.model.vocab_size=50257", "trainer.init_from=/models/gpt2"),  # given weights
    ),
    Case(RuleId.LAYER_WIDTH, "trainer.model.ffn", job("trainer.model.ffn=2730"), job("trainer.model.ffn=2752")),
    Case(
        RuleId.HEAD_DIM,
        "trainer.model.head_dim",
        job("trainer.model.heads=32", "trainer.model.kv_heads=32", "trainer.model.head_dim=36"),
        job("trainer.model.head_dim=80"),
    ),
    Case(
        RuleId.HEAD_DIM, "trainer.model.head_dim", job("trainer.model.head_dim=512"), job("trainer.model.head_dim=256")
    ),
    Case(
        RuleId.SEQUENCE_LENGTH,
        "trainer.model.seq_len",
        job("trainer.model.seq_len=2000"),
        job("trainer.model.seq_len=1984"),
    ),
    # Precision and speed
    Case(RuleId.FP16, "trainer.precision", job("trainer.precision=fp16"), job("trainer.precision=bf16")),
    Case(
        RuleId.EMULATED_BF16,
        "trainer.precision",
        Given(("trainer.precision=bf16", *ONE_SEQUENCE), ("gpu=v100-16",)),
        Given(("trainer.precision=fp16", *ONE_SEQUENCE), ("gpu=v100-16",)),
    ),
    Case(
        RuleId.NO_FLOAT8,
        "trainer.precision",
        Given(("trainer.precision=float8", *ONE_SEQUENCE), ("gpu=a100-80",)),
        Given(("trainer.precision=float8", *ONE_SEQUENCE), ("gpu=h100-80",)),
    ),
    Case(
        RuleId.FP32_ON_GPUS,
        "trainer.precision",
        job("trainer.precision=fp32"),
        job("trainer.precision=fp32", on=CPUS),
    ),
    Case(
        RuleId.BF16_REDUCTION,
        "trainer.reduce_dtype",
        job("nodes=8", "trainer.reduce_dtype=bf16"),
        job("trainer.reduce_dtype=bf16"),
    ),
    Case(
        RuleId.COMPILE_OFF,
        "trainer.compile",
        job("trainer.compile=false"),
        job("trainer.compile=false", "trainer.steps=900"),
    ),
    Case(
        RuleId.NO_WARMUP,
        "trainer.optim.warmup_steps",
        job("trainer.optim={lr: 6.0e-4}"),
        job("trainer.optim={lr: 1.0e-5}"),
    ),
    Case(
        RuleId.MANY_SKIPPED_STEPS,
        "trainer.max_skipped_steps",
        job("trainer.max_skipped_steps=10000"),
        job("trainer.max_skipped_steps=20"),
    ),
    *(
        Case(RuleId.KEY_WITHOUT_EFFECT, key, found, quiet)
        for key, found, quiet in (
            ("restart_on", job("restart_on=[hang]", "restarts=0", "time_limit=2h"), job("restart_on=[hang]")),
            ("hang.data", script("hang.data=5m"), job("hang.data=5m")),
            ("warm", script("warm=true", profile=CONTAINER), script("warm=false", profile=CONTAINER)),
            ("warm_imports", script("warm_imports=[numpy]", profile=CONTAINER), script("warm_imports=[numpy]")),
            (
                "trainer.memory.cpu_offload",
                job("trainer.memory.cpu_offload=true", on=CPUS),
                job(on=CPUS),
            ),
            ("trainer.profile.memory", job("trainer.profile.memory=true", on=CPUS), job(on=CPUS)),
            ("network.ib_hcas", profile("network.ib_hcas=[mlx5_0]", text=CPUS), profile(text=CPUS)),
            (
                "trainer.optim.decay_ratio",
                job("trainer.optim.decay_ratio=0.1"),
                job("trainer.optim.decay_ratio=0.1", "trainer.optim.schedule=wsd"),
            ),
            (
                "trainer.optim.min_lr_ratio",
                job("trainer.optim.min_lr_ratio=0.0", "trainer.optim.schedule=constant"),
                job("trainer.optim.min_lr_ratio=0.0"),
            ),
            (
                "trainer.data.val_fraction",
                job("trainer.data={source: /data/prepared, val_fraction: 0.1}"),
                job("trainer.data={source: builtin, val_fraction: 0.1}"),
            ),
            ("trainer.profile.steps", job("trainer.profile.steps=5"), job("trainer.profile={first_step: 9, steps: 5}")),
        )
    ),
    Case(
        RuleId.LONG_TRACE,
        "trainer.profile.steps",
        job("trainer.profile={first_step: 10, steps: 100}"),
        job("trainer.profile={first_step: 10, steps: 5}"),
    ),
    Case(
        RuleId.MEMORY_HISTORY,
        "trainer.profile.memory",
        job("trainer.profile.memory=true"),
        job("trainer.profile.memory=true", "trainer.steps=900"),
    ),
    # Checkpoints and disks
    Case(
        RuleId.NO_CHECKPOINTS,
        "trainer.checkpoint.mode",
        job("trainer.checkpoint={every_steps: 20000, mode: none, keep: 1}", "grace=30s", *LARGE[:-1]),
        job("trainer.checkpoint={every_steps: 900, mode: none}", "trainer.steps=900"),
    ),
    Case(RuleId.SHORT_GRACE, "grace", job("grace=30s", *LARGE), job("grace=30s")),
    Case(
        RuleId.RARE_SAVES,
        "trainer.checkpoint.every_steps",
        job(*LARGE, "trainer.checkpoint.every_steps=5000"),
        job(*LARGE, "trainer.checkpoint.every_steps=1000"),
    ),
    Case(
        RuleId.FREQUENT_SAVES,
        "trainer.checkpoint.every_steps",
        job("trainer.checkpoint.every_steps=2"),
        job("trainer.checkpoint.every_steps=50"),
    ),
    Case(
        RuleId.NO_SAVE_BEFORE_END,
        "trainer.checkpoint.every_steps",
        job("trainer.checkpoint.every_steps=20000"),
        job("trainer.checkpoint.every_steps=10000"),
    ),
    Case(
        RuleId.KEEP_ONE,
        "trainer.checkpoint.keep",
        job("trainer.checkpoint.keep=1"),
        job("trainer.checkpoint.keep=2"),
    ),
    Case(
        RuleId.LOCAL_RUN_ROOT,
        "runs_root",
        profile("runs_root=/tmp/runs"),
        profile("runs_root=/tmpfs-shared/runs"),
    ),
    Case(
        RuleId.LOCAL_RUN_ROOT,
        "runs_root",
        profile("backend={kind: ssh, shared_filesystem: false}", "runs_root=/tmp", text=SSH),
        profile("backend={kind: ssh, shared_filesystem: false}", "runs_root=/raid/runs", text=SSH),
    ),
    Case(
        RuleId.HOME_RUN_ROOT,
        "runs_root",
        Given(LARGE, ("runs_root=null",)),
        profile("runs_root=null"),
    ),
    Case(
        RuleId.SMALL_HOST_MEMORY,
        "backend.mem",
        Given(LARGE, ('backend.mem="20G"',)),
        Given(LARGE, ('backend.mem="0"',)),
    ),
    # Time limits and restarts
    Case(RuleId.NO_RESTARTS, "restarts", job("restarts=0"), job("restarts=0", "nodes=1")),
    Case(
        RuleId.SPARES_WITHOUT_RESTARTS,
        "restarts",
        Given(("restarts=0", "time_limit=2h"), ("spares=[{id: c, address: 10.0.0.3}]",), TRAINER, SSH),
        profile("spares=[{id: c, address: 10.0.0.3}]", text=SSH),
    ),
    Case(
        RuleId.NO_REQUEUES,
        "backend.max_requeues",
        profile("backend.max_requeues=0"),
        profile("backend.max_requeues=5"),
    ),
    Case(
        RuleId.NO_TIME_LIMIT,
        "time_limit",
        Given(("time_limit=null",), ("backend.time=null",)),
        job("time_limit=null"),
    ),
    Case(RuleId.LONG_HANG_LIMIT, "hang.after", job("hang.after=1d"), job("hang.after=10m")),
    Case(RuleId.SHORT_PEER_TIMEOUT, "peer_timeout", profile("peer_timeout=3s"), profile("peer_timeout=30s")),
    # Network
    Case(
        RuleId.IB_DISABLED,
        "network.nccl.NCCL_IB_DISABLE",
        profile("network.nccl.NCCL_IB_DISABLE=1"),
        profile("network.nccl.NCCL_IB_DISABLE=0"),
    ),
    Case(RuleId.NVLINK_DISABLED, "env.NCCL_P2P_DISABLE", job("env.NCCL_P2P_DISABLE=1"), job("env.NCCL_P2P_DISABLE=0")),
    Case(RuleId.NVLINK_DISABLED, "env.NCCL_P2P_LEVEL", job("env.NCCL_P2P_LEVEL=LOC"), job("env.NCCL_P2P_LEVEL=NVL")),
    Case(RuleId.FORCED_ALGORITHM, "env.NCCL_ALGO", job("env.NCCL_ALGO=Ring"), job("env.NCCL_ALGO=Ring", on=CPUS)),
    Case(
        RuleId.LOCAL_INTERFACE,
        "network.interface",
        profile("network.interface=docker0"),
        profile("network.interface=bond0"),
    ),
    Case(
        RuleId.LOCAL_INTERFACE,
        "env.GLOO_SOCKET_IFNAME",
        job("env.GLOO_SOCKET_IFNAME=lo"),
        job("env.GLOO_SOCKET_IFNAME=lo", "nodes=1"),
    ),
    Case(
        RuleId.INTERFACE_IN_ENV,
        "env.NCCL_SOCKET_IFNAME",
        job("env.NCCL_SOCKET_IFNAME=eth0"),
        job("env.NCCL_SOCKET_IFNAME=eth0", "nodes=1"),
    ),
    Case(
        RuleId.LOOPBACK_HEAD,
        "master_address",
        profile("master_address=127.0.0.1"),
        profile("master_address=10.1.2.3"),
    ),
    Case(
        RuleId.LOOPBACK_ALLOWED,
        "allow_loopback",
        profile("allow_loopback=true", "master_address=127.0.0.1", "network.interface=lo", text=SSH),
        Given(("nodes=1",), ("allow_loopback=true",), TRAINER, SSH),
    ),
    Case(
        RuleId.EPHEMERAL_PORTS,
        "ports.first",
        profile("ports={first: 40000, last: 40100}"),
        profile("ports={first: 20000, last: 20100}"),
    ),
    # Variables
    Case(
        RuleId.SECRET_IN_ENV,
        "env.WANDB_API_KEY",
        job("env.WANDB_API_KEY=0123abcd"),
        job("env.TOKENIZERS_PARALLELISM=false", "env.HF_TOKEN_PATH=/home/me/token", "env.EOS_TOKEN=</s>"),
    ),
    Case(RuleId.SECRET_IN_ENV, "args[1]", script("args=[--hf-token, hf_$abcd]"), script("args=[--pad-token, abcd]")),
    Case(
        RuleId.SECRET_IN_ENV,
        "args[1]",
        script("args=[--image-token, abcd]"),
        script("args=[--image-token, '<image>', --token-dropout, '0.1', --use-auth-token, --lr, '1']"),
    ),
    Case(
        RuleId.SECRET_IN_ENV,
        "setup[0]",
        profile('setup=["export HF_TOKEN=hf_abc"]'),
        profile('setup=["export HF_TOKEN=$(cat ~/token)"]'),
    ),
    Case(RuleId.UNEXPANDED_VARIABLE, "env.CACHE", job("env.CACHE=$HOME/cache"), job("env.CACHE=5$")),
    Case(RuleId.UNEXPANDED_VARIABLE, ARGS, script("args=['--out=${SCRATCH}/x']"), script("args=['^a$']")),
    Case(RuleId.DEBUG_LEFT_ON, "debug", job("debug=trace"), job("debug=info")),
    Case(
        RuleId.DEBUG_LEFT_ON,
        "env.TORCH_DISTRIBUTED_DEBUG",
        job("env.TORCH_DISTRIBUTED_DEBUG=DETAIL"),
        job("env.TORCH_DISTRIBUTED_DEBUG=INFO", "env.NCCL_DEBUG=WARN"),
    ),
    Case(
        RuleId.DEBUG_LEFT_ON,
        "env.NCCL_DEBUG_SUBSYS",
        job('env.NCCL_DEBUG_SUBSYS="INIT,COLL"', "env.NCCL_DEBUG=INFO"),
        job('env.NCCL_DEBUG_SUBSYS="INIT,COLL"', "env.NCCL_DEBUG=WARN"),
    ),
    Case(
        RuleId.BLOCKING_LAUNCHES,
        "env.CUDA_LAUNCH_BLOCKING",
        job("env.CUDA_LAUNCH_BLOCKING=1"),
        job("env.CUDA_LAUNCH_BLOCKING=0"),
    ),
    Case(
        RuleId.IGNORED_ERRORS,
        "env.TORCH_NCCL_ASYNC_ERROR_HANDLING",
        job("env.TORCH_NCCL_ASYNC_ERROR_HANDLING=0"),
        job("env.TORCH_NCCL_ASYNC_ERROR_HANDLING=1"),
    ),
    Case(
        RuleId.RENAMED_VARIABLE,
        "env.PYTORCH_CUDA_ALLOC_CONF",
        job('env.PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"'),
        job('env.PYTORCH_ALLOC_CONF="expandable_segments:True"'),
    ),
    Case(
        RuleId.DETERMINISTIC_LEFT_ON,
        "env.CUBLAS_WORKSPACE_CONFIG",
        job('env.CUBLAS_WORKSPACE_CONFIG=":4096:8"'),
        job('env.CUBLAS_WORKSPACE_CONFIG=":4096:8"', on=CPUS),
    ),
    Case(
        RuleId.DETERMINISTIC_LEFT_ON,
        "trainer.deterministic",
        job("trainer.deterministic=true"),
        job("trainer.deterministic=true", on=CPUS),
    ),
    Case(RuleId.DETERMINISTIC_LEFT_ON, ARGS, script("args=[--deterministic]"), script("args=[--deterministic=false]")),
    Case(
        RuleId.VISIBLE_GPUS,
        "env.CUDA_VISIBLE_DEVICES",
        job('env.CUDA_VISIBLE_DEVICES="0,1"'),
        job('env.CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6,7"'),
    ),
    # Nodes, processors and setup
    Case(RuleId.IDLE_GPUS, "procs_per_node", job("procs_per_node=4"), job("procs_per_node=8")),
    Case(
        RuleId.UNEVEN_GPUS,
        "nodes[1].gpus",
        profile("gpus_per_node=null", text=SSH.replace("10.0.0.1}", "10.0.0.1, gpus: 4}").replace("2}", "2, gpus: 8}")),
        profile("gpus_per_node=null", text=SSH.replace("10.0.0.1}", "10.0.0.1, gpus: 8}").replace("2}", "2, gpus: 8}")),
    ),
    Case(
        RuleId.ONE_CPU,
        "backend.cpus_per_task",
        profile("backend.exclusive=false"),
        profile("backend.exclusive=false", "backend.extra=[--cpus-per-gpu=12]"),
    ),
    Case(
        RuleId.TOO_MANY_THREADS,
        "env.OMP_NUM_THREADS",
        Given(("env.OMP_NUM_THREADS=16",), ("backend.cpus_per_task=64",)),
        Given(("env.OMP_NUM_THREADS=8",), ("backend.cpus_per_task=64",)),
    ),
    Case(
        RuleId.TOO_MANY_WORKERS,
        "args[1]",
        script("args=[x, --num-workers=16]", profile=("backend.cpus_per_task=64",)),
        script("args=[x, --num-workers, '8']", profile=("backend.cpus_per_task=64",)),
    ),
    Case(
        RuleId.MOVING_IMAGE,
        "backend.container.image",
        profile("backend.container={runtime: pyxis, image: 'nvcr.io#nvidia/pytorch'}"),
        profile("backend.container={runtime: pyxis, image: 'nvcr.io#nvidia/pytorch:25.10-py3'}"),
    ),
    Case(
        RuleId.SETUP_INSTALLS,
        "setup[0]",
        profile("setup=['pip install wandb']"),
        profile("setup=['source /shared/venv/bin/activate']"),
    ),
    Case(
        RuleId.WORLD_WRITABLE,
        "setup[0]",
        profile("setup=['chmod -R 777 /shared/runs']"),
        profile("setup=['chmod 755 /shared/run.sh']"),
    ),
]

"""The names that launcher, node agent and trainer share. Standard library only; each fact has its one owner here.

`codec` turns the shared records into JSON and back, `records` and `plan` hold those records, `paths` names the files
of the run directory, `trainer/` is the trainer's configuration, `formats/` are the file formats of data and
checkpoints.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class CliExit(IntEnum):
    """Exit codes of `fsdpctl`."""

    OK = 0
    FAILED = 1  # the run or the check failed
    USAGE = 2  # bad usage or configuration
    BUG = 3  # a bug in fsdpctl; the traceback is in a file whose path was printed
    UNREACHABLE = 4  # a scheduler or a host is unreachable or refuses
    BUSY = 5  # the run is alive or locked
    INTERRUPTED = 130
    BROKEN_PIPE = 141  # the reader of the output has exited, like `head`: a shell's code for SIGPIPE


class NodeExit(IntEnum):
    """Exit codes of the node agent and of the trainer. Any other code is a failure."""

    FINISHED = 0
    STOPPED = 75  # stopped on request and saved: can be resumed
    STOPPED_UNSAVED = 76  # stopped on request without a save: a resume takes an older checkpoint, or starts at step 0
    NODE_FAULT = 77  # this node is at fault: resume elsewhere


GOOD_ENDS = (NodeExit.FINISHED, NodeExit.STOPPED, NodeExit.STOPPED_UNSAVED)
"""Exit codes that are no failure."""


class State(StrEnum):
    """States of a run."""

    PLANNED = "PLANNED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    LOST = "LOST"

    @property
    def is_alive(self) -> bool:
        """Whether processes or a queued job may exist."""
        return self in (State.QUEUED, State.RUNNING, State.RESTARTING)


class StopReason(StrEnum):
    """Why ranks are asked to save and exit: the first word of the stop file."""

    USER = "user"  # fsdpctl stop
    TIME = "time"  # the time limit is near
    PREEMPT = "preempt"  # the scheduler takes the nodes back


class Cause(StrEnum):
    """Why a node's part of an attempt, an attempt or a run ended: the value beside the text of a `reason`.

    What follows each is in `contract/causes.py`.
    """

    UNKNOWN = "unknown"  # written by an older version
    FINISHED = "finished"
    STOP = "stop"  # on a user's request, or ranks left with the exit code of a stop
    TIME_LIMIT = "time_limit"
    PREEMPTION = "preemption"
    REQUEUE = "requeue"  # the scheduler requeued the job by itself
    CANCEL = "cancel"
    SIGNAL = "signal"  # a signal ended a rank
    EXIT_CODE = "exit_code"  # a rank ended with a bad exit code
    EXCEPTION = "exception"  # the trainer reported what was wrong
    CONFIGURATION = "configuration"  # the trainer refused its configuration, its data or its checkpoints
    TORCHRUN = "torchrun"  # torchrun ended and named no rank
    HANG = "hang"  # a rank made no progress
    NODE_CHECK = "node_check"
    PACKAGE = "package"  # a package that ranks import is missing; of an attempt: on every node
    SETUP = "setup"  # a line of the profile's `setup`
    JOIN = "join"  # the nodes did not come together
    START = "start"  # agents could not be started
    AGENT = "agent"  # the node agent was killed
    LOST = "lost"  # no heartbeat, or no exit record
    ABORT = "abort"  # ended because another node had failed


class RankFailure(StrEnum):
    """How a rank failed, from what must be its own failure to what only follows from another one."""

    EXCEPTION = "exception"
    SIGNAL = "signal"
    EXIT_CODE = "exit_code"  # it left by itself, and did not record why
    LOST_PEER = "lost_peer"  # a collective failed because another rank was gone


class AbortReason(StrEnum):
    """Why an attempt must end at once, unsaved: the first word of the abort file."""

    CANCEL = "cancel"  # fsdpctl cancel
    FAULT = "fault"  # a node failed, so the others cannot continue
    HANG = "hang"  # a rank makes no progress
    LOST = "lost"  # a node shows no sign of life


FAULTS = (AbortReason.FAULT, AbortReason.HANG, AbortReason.LOST)
"""The reasons that an agent or a supervisor has found, and no user."""


class Phase(StrEnum):
    """What a run is doing within its state."""

    PLANNED = "planned"  # created, never started
    QUEUED = "queued"
    STARTING = "starting"
    TRAINING = "training"
    STOPPING = "stopping"  # saving, then leaving
    ENDING = "ending"  # being ended, or some ranks have ended
    WAITING = "waiting"  # for hosts that do not answer
    SUSPENDED = "suspended"  # the scheduler has paused its processes
    UNSUPERVISED = "unsupervised"  # its supervisor was killed
    RESTARTING = "restarting"
    ENDED = "ended"


class Env:
    """Environment variables that ranks and users' scripts may read. `docs/own-scripts.md` lists them."""

    RUN_ID = "FSDPCTL_RUN_ID"
    ATTEMPT = "FSDPCTL_ATTEMPT"
    NODE_RANK = "FSDPCTL_NODE_RANK"
    RUN_DIR = "FSDPCTL_RUN_DIR"
    NODE_DIR = "FSDPCTL_NODE_DIR"  # attempts/<n>/node-<r>, where this node's ranks write logs and errors
    CHECKPOINT_DIR = "FSDPCTL_CHECKPOINT_DIR"
    STOP_FILE = "FSDPCTL_STOP_FILE"
    GRACE = "FSDPCTL_GRACE_S"  # seconds from the stop request to TERM; with a `stop_signal`, to KILL
    PREEMPT_GRACE = "FSDPCTL_PREEMPT_GRACE_S"  # the same for a preemption, for which Slurm may give less
    OUTCOME_FILE = "FSDPCTL_OUTCOME_FILE"
    IFNAME = "FSDPCTL_IFNAME"  # the network interface chosen on this node
    SHARED_DISK = "FSDPCTL_SHARED_DISK"  # 0 where each node has a run directory of its own
    INTEGRATIONS = "FSDPCTL_INTEGRATIONS"  # of the job; 0: transformers and Lightning are left as they are
    SUBMIT_DIR = "FSDPCTL_SUBMIT_DIR"  # working directory of `fsdpctl submit`

    DATA_CACHE = "FSDPCTL_DATA_CACHE"  # directory on the node for data behind a URL
    DATA_CACHE_GIB = "FSDPCTL_DATA_CACHE_GIB"  # how much it may hold; default: half of the disk

    USER_PYTHONPATH = "FSDPCTL_USER_PYTHONPATH"  # PYTHONPATH of the submitting shell, for users' entrypoints

    HOME = "FSDPCTL_HOME"  # of the CLI: the registry of runs
    PROFILE = "FSDPCTL_PROFILE"  # of the CLI: the default profile


BUNDLED_TRAINER = "train"
"""The module name that means the bundled trainer, never a user's file of that name."""
BENCHMARKS = "fsdpctl.benchmarks"
"""The package of the benchmarks: each of its packages is a program for ranks."""

NODE_FOLDERS = ("contract", "commands", "notify", "node", "runs", "holds", "supervise", "backends/slurm/job")
"""The folders of this package that are copied to each node; they import each other, `NODE_MODULES` and the standard
library, and nothing else."""
NODE_MODULES = ("errors.py", "report.py")
RANK_FOLDERS = ("benchmarks", "integrations", "trackers", "remote_data")
"""The folders that are copied with them and run in the Python of the ranks: they need its packages, too."""

RANK_PROGRAM = "fsdpctl.node.agent.rank"
"""The module that runs the entrypoint as a rank."""

SCHEMA = 3
"""Version of the records that fsdpctl writes into a run directory. Older ones are read; newer ones are refused.

2: `cause` beside `reason`; the hosts of an SSH run in `plan.json`; modules in other folders.
3: limits of hangs, `restart_on`, the run to wait for and the stop signal in `plan.json`.
"""

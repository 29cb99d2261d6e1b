"""docs/restarts.md: what follows each cause, from the table of the supervisor."""

from __future__ import annotations

from docs.source import member_comments
from docs.tables import FOOT, as_sentence, row
from fsdpctl.backends.slurm.job.decide_step import MAX_EXCLUDED
from fsdpctl.backends.ssh.liveness import RECENT
from fsdpctl.contract.causes import RULES, Rule, Then
from fsdpctl.ledger.account import TimeUse
from fsdpctl.node.agent.fork_server import IMPORT_S
from fsdpctl.node.agent.running_ranks import TERM_OF_VICTIMS_S, TERM_S
from fsdpctl.node.warm.server import LINGER_S
from fsdpctl.runs.progress import SAVE_LEVELS
from fsdpctl.runs.suspects import REMEMBERED_S
from fsdpctl.supervise.history import MAX_WITHOUT_PROGRESS

INTRO = f"""\
# Restarts: causes and what follows

Each attempt ends for one cause. It is in `verdict.json` and, while it is the newest, in `status --json` and
`ls --json`. With `restarts: N` in the job, a run restarts up to N times after a failure; without it, a failure ends the
run. A restart continues from the newest checkpoint. [run-directory.md](run-directory.md) has the states.

`restart_on` in the job lists the causes after which the run restarts. Its default is all causes with "restart" in the
table. For example, `restart_on: [signal, hang, lost]` ends the run after an exception, and with `configuration` in the
list a run also restarts after its data was not found.

Under Slurm the batch script runs the lines of `setup` first: one that fails there ends the job before any attempt, and
nothing restarts ([Slurm](launchers-slurm.md#the-profile)).

Four rules end a run before its restarts are used up:

- **No progress.** After {MAX_WITHOUT_PROGRESS} attempts in a row without a new step, whatever ended them: failures,
  time limits and requeues are counted together. A script that records no steps makes progress if something in
  `FSDPCTL_CHECKPOINT_DIR`, up to {SAVE_LEVELS} levels down, has changed. A preemption does not count, nor a requeue
  that the scheduler announced by a signal: a run must survive any number of them.
- **The same exception.** Two attempts without a new step ended by the same exception: type, message and the innermost
  frame of your code are equal.
- **Never.** After some causes another attempt would fail in the same way.
- **A stop.** A run that fails while it saves for `fsdpctl stop` is FAILED, and does not restart.

`fsdpctl resume` starts an ended run again and begins all counts anew; with `--step N`, every step after N is a new one.
"""

WARM = f"""
## Warm starts

torch takes seconds to import, in torchrun and then again in each rank. So each node of a run has one *fork
server*: it imports torch and the trainer while nodes are checked and join, has no thread and does not touch CUDA,
and torchrun and the ranks are forked from it. `ps` and logs show them as usual; between torchrun and each rank
there is one small process (`fsdpctl.node.warm.worker`) that ends as its rank ends.

After a failure the fork server waits {LINGER_S:.0f} s for the next attempt on its node, and is used again if
nothing that it has read has changed: command, environment, code. One that was killed, has another thread or a GPU
open is replaced. Where its imports fail (`warm.log` in the node's directory) or take longer than {IMPORT_S:.0f} s,
torchrun starts cold. It ends with the run, but [in a hold](holds.md), where the next run has it.

The bundled trainer starts warm; `warm: false` in the job turns that off. `warm: true` does the same for your own
script, of which only torch is imported beforehand, and the modules of `warm_imports`: a script that changes variables
for torch in `os.environ` before it imports torch must stay cold. In a container each start is cold. Under Slurm the
process ends with the attempt where Slurm tracks processes by cgroup.

What the compiler made is saved with the run, and all nodes of the next attempt start from it, also a spare and a node
with an empty `/tmp`: [trainer.md](trainer.md#units).
"""

SUSPECTS = f"""
## Nodes that may be bad

A node is suspect after its check or a line of `setup` failed, after a rank on it ended by a fault of its GPU, link or
disk, after its agent left no exit record, or after its host was replaced; not if that happened to all of several
nodes of the attempt, nor after a stop, a preemption or a cancel. For {REMEMBERED_S / 3600:.0f} hours this counts in
your other runs, too:

```console
$ fsdpctl nodes
NODE   RUN            ATTEMPT  WHEN              UNTIL             REASON
gpu07  llm-70b-k3f9   2        2026-11-29 14:02  2026-11-30 14:02  its agent left no exit record
$ fsdpctl nodes forgive gpu07
```

Over SSH, hosts of the profile that are not suspect come first, and a suspect is used where there are too few others.
Under Slurm a new job excludes the newest {MAX_EXCLUDED} suspects (`--exclude`), unless Slurm refuses it then. `submit`
and `resume` name each one. The evidence is in the run directories: a run that is deleted takes its own along.
"""

HOSTS = f"""
## When a host dies

Over SSH, with `peer_timeout: 5s`, a spare and a disk that all hosts share, the next attempt begins about 10 s after its
host died, and half of that is the time-out. Measured on hosts of the tests, two processors for all of them:

| seconds | before | now | what is done |
| --- | --- | --- | --- |
| until it is found | 4.8 | 5.0 | The other agents see no heartbeat for `peer_timeout`. |
| the other ranks end | 5.2 | 1.5 | TERM, then KILL: after {TERM_OF_VICTIMS_S:.0f} s, no longer {TERM_S:.0f} (1). |
| the agents are looked for | 3.2 | 0 | A host without an answer for `peer_timeout` is not asked again (2). |
| their nodes are swept | 6.1 | 0.9 | The same; it was tried twice. |
| a spare is found | 9.4 | 1.2 | The same, three times; now only the connection to the spare. |
| agents are up | 4.7 | 2.2 | Both hosts are checked, then the agents started. |
| sum | 33.4 | 10.8 | |

1. Peers of a lost node wait in a collective for it, and cannot save together.
2. A thread asks each host all the time, and one that answers again is used again.

The machine had load 6 before, and 18 now; the ranks that ended within 1.5 s are of another run, of the bundled trainer.
Then torchrun and the ranks start, cold on the spare. With the default `peer_timeout` of 15 s, all of it comes 10 s
later.

Where hosts share no disk, their agents do not see each other. The supervisor ends the attempt when a host has given no
answer for `peer_timeout` and the run has written nothing for twice the longest of its last {RECENT} pauses between two
writes; for at least twice `peer_timeout`, since connections may need so long after an outage, and for at most four
times, which is also the limit before {RECENT} pauses are known.
"""

LEDGER = """
## Where the time was

Each second of a run, from its submission to its end or now, belongs to one use. `fsdpctl events` ends with the table,
`status` has a line with the effective time and the largest losses, and both have it in `--json` as `ledger`, seconds by
use. Here rank 1 was killed 22 s after a checkpoint, on a busy machine:

```console
$ fsdpctl events llm-tiny-y5gc
...
2026-11-29 20:24:50    2  supervisor  restarted         started on 2 nodes
2026-11-29 20:25:22    2  rank 0      saved             step-00000060 in 0.24 s
2026-11-29 20:25:30    2  user        stop requested    fsdpctl stop
2026-11-29 20:25:31    2  rank 0      saved             step-00000071 in 0.14 s
2026-11-29 20:25:32    2  supervisor  ended             STOPPED: stopped (user); saved at step 71

TIME OF THE RUN  SECONDS  SHARE
start            24.7     15.3%
restore          0.3      0.2%
step             106.3    65.8%
save             0.2      0.1%
evaluation       0.5      0.3%
redone           24.2     15.0%
restart          3.7      2.3%
end              1.6      1.0%
total            161.6    100.0%
effective        106.9    66.1%
```

The effective time is what went into steps and evaluations that were not done again, as a share of the time without
queue and idle.

"""

LEDGER_LIMITS = """
Rank 0 of the bundled trainer records what it works at in `work.jsonl`. Of your own script only start, running, restart,
hang and end are known, and what was done again if it reports its steps; without steps there is no effective time. A
run of an older version has what it recorded: there, too, saves and evaluations are part of `running`.
A rank that ends is found within half a second, which is part of `redone`; what a hang or a lost node costs until it is
found is `hang`. Between hosts, times are as exact as their clocks.
"""


def render() -> str:
    lines = [row("cause", "meaning", "what follows", "counts as an attempt without progress"), row(*["---"] * 4)]
    lines += [row(f"`{cause}`", rule.meaning, rule.then, _counts(rule)) for cause, rule in RULES.items()]
    uses = [row("use", "seconds"), row(*["---"] * 2)]
    uses += [row(f"`{use}`", as_sentence(text)) for use, text in member_comments(TimeUse).items()]
    ledger = LEDGER + "\n".join(uses) + "\n" + LEDGER_LIMITS
    return "\n".join([INTRO, *lines, WARM.rstrip(), SUSPECTS.rstrip(), HOSTS.rstrip(), ledger, FOOT]) + "\n"


def _counts(rule: Rule) -> str:
    if rule.then is Then.END:
        return ""
    return "if it made no step" if rule.counts else "no"

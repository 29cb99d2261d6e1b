"""The Python API: the verbs of the command line as methods, on the same code.

    from fsdpctl import Client

    run = Client().submit("llm-tiny", nodes=2, overrides=["trainer.steps=50"])
    print(run.wait().state, [line["loss"] for line in run.metrics()][-1])

Nothing is printed and nothing exits. Whatever a user can meet is raised as an `FsdpctlError`, whose `hint` says what to
do next: `UsageError` for wrong words, jobs and profiles, `LaunchError` for hosts and schedulers, `BusyError` for a run
that is alive or locked. Objects hold no connection and no cache; every call looks at the run anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract.paths import RunPaths
from fsdpctl.doctor.examine import Examined
from fsdpctl.logs.line import Line
from fsdpctl.logs.reader import AttemptReader
from fsdpctl.logs.sources import LogSelection
from fsdpctl.runs.find import check_ranks, find_attempt, find_run
from fsdpctl.runs.metrics import read_metrics
from fsdpctl.runs.store import list_runs
from fsdpctl.specs.load import load_profile
from fsdpctl.verbs.arguments import (
    check_flag,
    check_numbers,
    check_path,
    check_seconds,
    check_text,
    check_texts,
    check_whole,
)
from fsdpctl.verbs.doctor import examine_cluster
from fsdpctl.verbs.resume import resume
from fsdpctl.verbs.status import RunStatus, read_status
from fsdpctl.verbs.stop import cancel, stop
from fsdpctl.verbs.submit import read_request, submit
from fsdpctl.verbs.watch import watch


@dataclass(frozen=True)
class Run:
    """One run, wherever it lies and whatever became of it."""

    paths: RunPaths

    @property
    def run_id(self) -> str:
        return self.paths.root.name

    @property
    def directory(self) -> Path:
        """The run directory; `docs/run-directory.md` says what is in it."""
        return self.paths.root

    def status(self) -> RunStatus:
        """State, reason and progress, now. Raises FsdpctlError when the run cannot be read."""
        return read_status(self.paths)

    def wait(self, timeout_s: float | None = None) -> RunStatus:
        """Wait until nothing of the run is queued or running, and return how it ended.

        Raises TimeoutError after `timeout_s`, with the run still going on; FsdpctlError when it cannot be read, at
        once or for minutes.
        """
        check_seconds("timeout_s", timeout_s)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for look in watch(self.paths):
            if look.status.state.is_alive and deadline is not None and time.monotonic() > deadline:
                why = look.problem or look.status.reason
                raise TimeoutError(f"{self.run_id} is {look.status.state} after {timeout_s:g} s: {why}")
        return look.status

    def stop(self) -> bool:
        """Ask all ranks to save and leave after the same step; `wait` tells when they have. False if nothing runs.

        Raises LaunchError when a host or the scheduler does not answer.
        """
        return stop(self.paths)

    def cancel(self) -> bool:
        """End the run now, unsaved, and return once no process of it is left. False if nothing ran.

        Raises FsdpctlError naming what would not die, LaunchError when a host or the scheduler does not answer.
        """
        return cancel(self.paths)

    def resume(
        self,
        *,
        nodes: int | None = None,
        overrides: Sequence[str] = (),
        step: int | None = None,
        update_code: bool = False,
    ) -> None:
        """Go on from the newest checkpoint, or from that of `step`; with another number of nodes where given.

        Raises BusyError while the run is alive, UsageError when the changed job does not fit or `step` was not
        saved, LaunchError when a host or the scheduler refuses.
        """
        check_whole("step", step)
        check_flag("update_code", update_code)
        resume(self.paths, _overrides(nodes, overrides), step=step, update_code=update_code)

    def metrics(self) -> list[dict[str, Any]]:
        """One mapping per step, as `metrics.jsonl` has them: step, loss, tokens_per_s, ...; empty before the first."""
        return list(read_metrics(self.paths.metrics))

    def logs(
        self,
        *,
        attempt: int | None = None,
        ranks: Iterable[int] = (),
        nodes: Iterable[int] = (),
        agent: bool = False,
    ) -> Iterator[Line]:
        """What the ranks of an attempt (the newest) have written so far, line by line in one order of time.

        All ranks and nodes unless some are named; `agent` adds the logs of the node agents and of torchrun.
        Raises UsageError when there is no such attempt, rank or node.
        """
        check_whole("attempt", attempt)
        check_flag("agent", agent)
        choice = LogSelection(frozenset(check_numbers("ranks", ranks)), frozenset(check_numbers("nodes", nodes)), agent)
        chosen = find_attempt(self.paths, attempt)
        check_ranks(self.paths, chosen, choice.ranks, choice.nodes)
        return AttemptReader(chosen, choice).poll(final=True)


class Client:
    """The runs of this user, as `$FSDPCTL_HOME` registers them."""

    def submit(
        self,
        job: str | Path,
        profile: str | Path = "local",
        *,
        nodes: int | None = None,
        overrides: Sequence[str] = (),
    ) -> Run:
        """Start a job, a name or a YAML file, on a cluster profile, likewise; return once it is started or queued.

        `overrides` are those of `--set`: "trainer.steps=50". Own scripts are looked up, and copied, from the current
        directory. Raises UsageError when the job or the profile is wrong or they do not fit, LaunchError when a host
        or the scheduler refuses.
        """
        request = read_request(check_path("job", job), check_path("profile", profile), _overrides(nodes, overrides))
        return Run(submit(request))

    def runs(self) -> list[Run]:
        """All runs that can be read, the newest first."""
        return [Run(listed.paths) for listed in list_runs() if listed.record is not None]

    def find(self, word: str | None = None) -> Run:
        """The run that `word` means: its id, a job's name (its newest run), a unique prefix; None: the newest run.

        Raises UsageError when there is none, or several; FsdpctlError when it cannot be read.
        """
        check_text("word", word)
        return Run(find_run(word))

    def doctor(self, profile: str | Path = "local", *, nodes: int | None = None) -> list[Examined]:
        """Examine all nodes of a profile, or `nodes` of them; one record a node, with a finding for each check.

        A host that cannot be reached is a finding. Raises UsageError when the profile is wrong, LaunchError when
        Slurm gives no nodes now.
        """
        check_whole("nodes", nodes)
        return examine_cluster(load_profile(check_path("profile", profile)), nodes)


def _overrides(nodes: int | None, overrides: Sequence[str]) -> list[str]:
    check_whole("nodes", nodes)
    return [*([f"nodes={nodes}"] if nodes is not None else []), *check_texts("overrides", overrides)]

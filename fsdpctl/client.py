"""The Python API: the commands of the CLI as methods, on the same code.

    from fsdpctl import Client

    run = Client().submit("llm-tiny", nodes=2, overrides=["trainer.steps=50"])
    print(run.wait().state, [line["loss"] for line in run.metrics()][-1])

Nothing is printed and nothing exits. Every expected failure is raised as an `FsdpctlError`, with a `hint` of what to do
next: `UsageError` for wrong arguments, jobs and profiles, `LaunchError` for hosts and schedulers, `BusyError` for a run
that is alive or locked. Objects hold no connection and no cache; every call reads the run again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract.paths import RunPaths
from fsdpctl.doctor.examine import Examined
from fsdpctl.errors import UsageError
from fsdpctl.explain.explanation import Explanation
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
from fsdpctl.verbs.explain import explain
from fsdpctl.verbs.fit import check_memory
from fsdpctl.verbs.resume import Changes, resume
from fsdpctl.verbs.stacks import RankReply, read_stacks
from fsdpctl.verbs.status import RunStatus, read_status
from fsdpctl.verbs.stop import cancel, stop
from fsdpctl.verbs.submit import read_request, start_after, submit
from fsdpctl.verbs.watch import watch


@dataclass(frozen=True)
class Run:
    """One run, in any directory and any state."""

    paths: RunPaths

    @property
    def run_id(self) -> str:
        return self.paths.root.name

    @property
    def directory(self) -> Path:
        """The run directory; `docs/run-directory.md` lists its files."""
        return self.paths.root

    def status(self) -> RunStatus:
        """Return state, reason and progress, now. Raise FsdpctlError if the run cannot be read."""
        return read_status(self.paths)

    def wait(self, timeout_s: float | None = None) -> RunStatus:
        """Wait until nothing of the run is queued or running, and return its final status.

        Raise TimeoutError after `timeout_s` seconds, while the run continues; FsdpctlError if it cannot be read, at
        once or for minutes.
        """
        check_seconds("timeout_s", timeout_s)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for observed in watch(self.paths):
            if observed.status.state.is_alive and deadline is not None and time.monotonic() > deadline:
                why = observed.problem or observed.status.reason
                raise TimeoutError(f"{self.run_id} is {observed.status.state} after {timeout_s:g} s: {why}")
        return observed.status

    def explain(self) -> Explanation:
        """Return why the run ended, by rank and with a diagnosis, or what it waits for now.

        Raise FsdpctlError if the run cannot be read.
        """
        return explain(self.paths)

    def stop(self) -> bool:
        """Ask all ranks to save and exit after the same step; `wait` waits for that. Return False if nothing runs.

        Raise LaunchError if a host or the scheduler does not answer.
        """
        return stop(self.paths)

    def cancel(self) -> bool:
        """End the run now, unsaved, and wait until no process of it is left. Return False if nothing ran.

        Raise FsdpctlError naming what is still alive, LaunchError if a host or the scheduler does not answer.
        """
        return cancel(self.paths)

    def resume(
        self,
        *,
        nodes: int | None = None,
        overrides: Sequence[str] = (),
        profile: str | Path | None = None,
        backend: Sequence[str] = (),
        step: int | None = None,
        update_code: bool = False,
        code_dir: str | Path | None = None,
        force: bool = False,
    ) -> None:
        """Continue from the newest checkpoint, or from that of `step`; `nodes` changes the number of nodes, `profile`
        the cluster, `backend` keys of the profile's backend.

        `update_code` copies the project again, from `code_dir`, else from where it was submitted.
        `force`: also where the changed job does not fit the memory of its GPUs.
        Raise BusyError while the run is alive, UsageError if the changed job does not fit or `step` was not
        saved, LaunchError if a host or the scheduler refuses.
        """
        check_whole("step", step)
        check_flag("update_code", update_code)
        check_flag("force", force)
        project = None if code_dir is None else Path(check_path("code_dir", code_dir))
        keys, backend_keys = _overrides(nodes, overrides), check_texts("backend", backend)
        chosen = None if profile is None else check_path("profile", profile)
        changes = Changes(keys, backend_keys, chosen, step=step, update_code=update_code, code_dir=project)
        resume(self.paths, changes, force=force)

    def metrics(self) -> list[dict[str, Any]]:
        """Return one mapping for each line of `metrics.jsonl`: step, loss, tokens_per_s, ..."""
        return list(read_metrics(self.paths.metrics))

    def logs(
        self,
        *,
        attempt: int | None = None,
        ranks: Iterable[int] = (),
        nodes: Iterable[int] = (),
        agent: bool = False,
    ) -> Iterator[Line]:
        """Yield the lines that the ranks of an attempt (default: the newest) have written so far, in order of time.

        All ranks and nodes unless some are given; `agent` adds the logs of the node agents and of torchrun.
        Raise UsageError if there is no such attempt, rank or node.
        """
        check_whole("attempt", attempt)
        check_flag("agent", agent)
        selection = LogSelection(
            frozenset(check_numbers("ranks", ranks)), frozenset(check_numbers("nodes", nodes)), agent
        )
        chosen = find_attempt(self.paths, attempt)
        check_ranks(self.paths, chosen, selection.ranks, selection.nodes)
        return AttemptReader(chosen, selection).poll(final=True)

    def stacks(self, ranks: Iterable[int] = ()) -> list[RankReply]:
        """Return what each rank does now, or some of them: the Python stacks of all its threads, or why there are none.

        Raise UsageError if there is no such rank, FsdpctlError if no rank of the run is running.
        """
        return read_stacks(self.paths, frozenset(check_numbers("ranks", ranks)))


class Client:
    """The runs of this user, as `$FSDPCTL_HOME` registers them."""

    def submit(
        self,
        job: str | Path,
        profile: str | Path | None = None,
        *,
        nodes: int | None = None,
        overrides: Sequence[str] = (),
        backend: Sequence[str] = (),
        after: Run | None = None,
        force: bool = False,
    ) -> Run:
        """Start a job on a cluster profile, each by name or YAML file; return once it is started or queued.

        `profile` None: that of the job, of FSDPCTL_PROFILE, of `fsdpctl profiles default`, or local.
        `overrides` are those of `--set`: "trainer.steps=50", `backend` those of `--backend`: "partition=short". The
        user's scripts are copied from the current directory. It starts once the run `after` has succeeded.
        Raise UsageError if the job or the profile is wrong or they do not fit, or `after` cannot succeed any more, or,
        without `force`, if the job cannot fit the memory of its GPUs; LaunchError if a host or the scheduler refuses.
        """
        chosen = None if profile is None else check_path("profile", profile)
        changes, keys = _overrides(nodes, overrides), check_texts("backend", backend)
        if after is not None and not isinstance(after, Run):
            raise UsageError(f"after must be a Run or None, got {after!r:.100}")
        check_flag("force", force)
        request = read_request(check_path("job", job), chosen, changes, keys)
        check_memory(request.profile, request.job, request.plan, force=force)
        if after is not None:
            request = start_after(request, after.paths)
        return Run(submit(request))

    def runs(self) -> list[Run]:
        """Return all runs that can be read, the newest first."""
        return [Run(listed.paths) for listed in list_runs() if listed.record is not None]

    def find(self, word: str | None = None) -> Run:
        """Return a run by its id, its job's name (the newest), a unique prefix, or None (the newest).

        Raise UsageError if there is none, or several; FsdpctlError if it cannot be read.
        """
        check_text("word", word)
        return Run(find_run(word))

    def doctor(self, profile: str | Path = "local", *, nodes: int | None = None) -> list[Examined]:
        """Check all nodes of a profile, or `nodes` of them; return one record for each node, with its findings.

        A host that cannot be reached is a finding. Raise UsageError if the profile is wrong, LaunchError if Slurm
        gives no nodes now.
        """
        check_whole("nodes", nodes)
        return examine_cluster(load_profile(check_path("profile", profile)), nodes)


def _overrides(nodes: int | None, overrides: Sequence[str]) -> list[str]:
    check_whole("nodes", nodes)
    return [*([f"nodes={nodes}"] if nodes is not None else []), *check_texts("overrides", overrides)]

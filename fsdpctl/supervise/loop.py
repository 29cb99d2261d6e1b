"""The supervisor of a run without a scheduler: attempts one after the other, until one ends well or none is left.

    python -m fsdpctl.supervise.loop RUN_DIR

It has no state of its own: what it decides is written beside the attempt that it judged, agents outlive it, and one
that is started again goes on where the last one stood.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fsdpctl.backends.table import open_agents
from fsdpctl.contract import AbortReason, State
from fsdpctl.contract.codec import write_json, write_text
from fsdpctl.contract.control_files import create_once, read_control_file
from fsdpctl.contract.files import FULL_DISK, take_lock
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.errors import FsdpctlError
from fsdpctl.node.os import processes
from fsdpctl.runs.events import add_event, record_start, record_verdict
from fsdpctl.runs.evidence import attempt_end, newest_step, read_plan, read_verdict
from fsdpctl.runs.store import claim_attempt, read_record
from fsdpctl.supervise.decide import History, Verdict, count_idle, decide_next, end_between, judge

POLL_S = 0.2
PAUSE_S = 1.0
"""Before the next attempt, where the last one has made no step: what failed at once may do so again."""
RETRY_S = 3.0
"""Between two looks at hosts that do not answer."""
WAIT_LIMIT_S = 1800.0
"""For hosts that a next attempt needs: long enough for a reboot."""
CANCEL_PROOF_S = 86_400.0
"""A cancelled run waits so long for hosts on which something may still run."""
END_PROOF_S = 60.0
"""Any other run, which nothing of an older attempt can harm when it is resumed."""

DISK_PAUSE_S = 10.0
MAX_DISK_ERRORS = 100


class Supervisor:
    """One run, from its newest attempt on."""

    def __init__(self, run: RunPaths) -> None:
        self.run = run
        self.plan = read_plan(run)
        self.first_attempt = read_record(run).submissions[-1].first_attempt
        self.agents = open_agents(run, self.plan)
        self.left: list[str] = []  # what the newest attempt may have left behind
        self.told: set[str] = set()  # of the present wait

    def work(self) -> None:
        """Run attempts until `decide_next` says stop, and leave only when no process of the run is left anywhere."""
        self._wait_no_more()
        attempt = self.run.attempts()[-1]
        while True:
            verdict = read_verdict(attempt) or self._run_attempt(attempt)
            if not verdict.restart:
                break
            if self._count_idle(attempt, verdict.step):
                time.sleep(PAUSE_S)
            if not self._find_hosts(attempt):
                break
            attempt = claim_attempt(self.run)
        if self.left:
            self._sweep_until_confirmed(attempt, END_PROOF_S)

    def _run_attempt(self, attempt: AttemptPaths) -> Verdict:
        refusal = self._start(attempt)
        if refusal is None:
            self._follow(attempt)
        end = judge(attempt_end(attempt, len(self.plan.nodes)))
        if refusal is not None and end.state in (State.FAILED, State.LOST):
            end = Verdict(State.FAILED, refusal)
        verdict = self._decide(attempt, replace(end, step=newest_step(self.run)), refused=refusal is not None)
        self._record(attempt, verdict)
        return verdict

    def _follow(self, attempt: AttemptPaths) -> None:
        while not (_never_started(attempt) or self.agents.is_over(attempt)):
            lost = self.agents.find_lost(attempt)
            if lost is not None and create_once(attempt.abort, AbortReason.FAULT, lost):
                add_event(attempt, f"ends the attempt: {lost}")
            if (silence := self.agents.describe_silence(attempt)) is not None:
                self._wait_for(attempt, silence)
            elif self.told:
                if not attempt.abort.exists():
                    add_event(attempt, "all hosts answer again")
                self._wait_no_more()
            time.sleep(POLL_S)
        if _is_cancelled(attempt):
            self._sweep_until_confirmed(attempt, CANCEL_PROOF_S)
        else:
            self.left = self.agents.end(attempt)
            for line in self.left:
                add_event(attempt, f"may have left something behind: {line}")

    def _start(self, attempt: AttemptPaths) -> str | None:
        """Start the agents; return why that was impossible. None are started that nobody wants any more."""
        is_taken_over = any(node.agent.exists() for node in attempt.nodes())
        if _is_cancelled(attempt) or (attempt.stop.exists() and not is_taken_over):
            return None
        try:
            self.agents.start(attempt)
        except FsdpctlError as error:
            create_once(attempt.abort, AbortReason.FAULT, error.message.splitlines()[0])
            return error.message
        if is_taken_over:
            add_event(attempt, "a new supervisor goes on with it")
        else:
            record_start(attempt, len(self.plan.nodes))
        return None

    def _decide(self, attempt: AttemptPaths, end: Verdict, *, refused: bool) -> Verdict:
        if refused and attempt.number == self.first_attempt:
            return end  # whoever submits is waiting, and can do something about it
        idle = self._count_idle(attempt, end.step)
        return decide_next(end, History(attempt.number - self.first_attempt, self.plan.restarts, idle))

    def _count_idle(self, attempt: AttemptPaths, step: int) -> int:
        """How many attempts in a row have made no step, up to this one, which has come to `step`."""
        earlier = [read_verdict(self.run.attempt(number)) for number in range(1, attempt.number)]
        steps = [verdict.step if verdict else 0 for verdict in earlier]
        before = max(steps[: self.first_attempt - 1], default=0)
        return count_idle([*steps[self.first_attempt - 1 :], step], before)

    def _find_hosts(self, attempt: AttemptPaths) -> bool:
        """Wait until the next attempt can start everywhere; False when it never can, or nobody wants it any more."""
        deadline = time.monotonic() + WAIT_LIMIT_S
        while not self._should_end(attempt):
            if not (missing := self.agents.prepare(attempt)):
                self._wait_no_more()
                return not self._should_end(attempt)  # hosts may have taken their time to answer
            if time.monotonic() > deadline:
                self._record(attempt, Verdict(State.FAILED, f"did not come back: {'; '.join(missing)}"))
                return False
            self._wait_for(attempt, f"waiting for {'; '.join(missing)}")
            time.sleep(RETRY_S)
        return False

    def _should_end(self, attempt: AttemptPaths) -> bool:
        """Whether nobody wants another attempt any more, which is the run's end."""
        if (verdict := end_between(read_control_file(attempt.stop), read_control_file(attempt.abort))) is None:
            return False
        if verdict.state is State.CANCELLED:
            self._sweep_until_confirmed(attempt, CANCEL_PROOF_S)
        self._record(attempt, verdict)
        return True

    def _sweep_until_confirmed(self, attempt: AttemptPaths, limit_s: float) -> None:
        """End what is left on every node, and come back until each has answered."""
        deadline = time.monotonic() + limit_s
        while (left := self.agents.end(attempt)) and time.monotonic() < deadline:
            self._wait_for(attempt, f"not yet proven that nothing is left: {'; '.join(left)}")
            time.sleep(RETRY_S)
        if self.told and not left:
            add_event(attempt, "proven on every node that nothing is left")
        self._wait_no_more()

    def _wait_for(self, attempt: AttemptPaths, what: str) -> None:
        if what not in self.told:  # a host may be tried for a day
            self.told.add(what)
            add_event(attempt, what)
        write_text(self.run.waiting, f"{what}\n")

    def _wait_no_more(self) -> None:
        self.told.clear()
        self.run.waiting.unlink(missing_ok=True)

    def _record(self, attempt: AttemptPaths, verdict: Verdict) -> None:
        """Raises OSError, and is called again later; not for the end of a run on a full disk, which might wait for room
        for ever: whoever looks at it judges it anew."""
        try:
            record_verdict(attempt, replace(verdict, step=newest_step(self.run)))
        except OSError as error:
            comes_back = verdict.restart and not (attempt.stop.exists() or _is_cancelled(attempt))
            if comes_back or error.errno not in FULL_DISK:
                raise


def _is_cancelled(attempt: AttemptPaths) -> bool:
    note = read_control_file(attempt.abort)
    return note is not None and note.is_cancel


def _never_started(attempt: AttemptPaths) -> bool:
    """Cancelled before an agent stood: none will come any more, and nobody waits for its first sign of life."""
    return _is_cancelled(attempt) and not any(node.agent.exists() for node in attempt.nodes())


def main(run: RunPaths) -> None:
    """Leave the supervisor behind, and end once it stands: its starter may live long, and never wait for a child."""
    os.umask(0o077)
    read_end, write_end = os.pipe()
    starter = os.getpid()
    if os.fork():
        os.close(write_end)
        os._exit(0 if os.read(read_end, 1) else 1)
    os.close(read_end)
    acquire_lock(run)
    os.write(write_end, b".")
    os.close(write_end)
    while os.getppid() == starter:  # it carries the run's tag: a run that ends at once would be swept with it
        time.sleep(0.001)
    supervise(run)


def acquire_lock(run: RunPaths) -> None:
    """Be the one supervisor of the run, for as long as this process lives."""
    if take_lock(run.supervisor_lock) is None:
        sys.exit("another supervisor has this run")
    write_json(run.supervisor, processes.identify(os.getpid()))


def supervise(run: RunPaths) -> None:
    """Be its supervisor to its end, through errors of the disk."""
    for _ in range(MAX_DISK_ERRORS):
        try:
            Supervisor(run).work()
            return
        except OSError:  # a full or absent disk: nothing is lost by beginning again from what is written there
            with suppress(OSError):  # the log lies there, too
                traceback.print_exc()
            time.sleep(DISK_PAUSE_S)


if __name__ == "__main__":
    main(RunPaths(Path(sys.argv[1])))

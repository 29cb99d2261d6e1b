"""The supervisor's loop: run attempts one after the other, until one ends well or no restart is left.

The loop is the same for all backends; `Agents` has the differences. It keeps no state in memory: each verdict is
written into its attempt, agents outlive the supervisor, and a new supervisor continues where the last one was.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fsdpctl.contract import AbortReason, Cause, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import create_once, read_control_file
from fsdpctl.contract.events import EventKind
from fsdpctl.contract.files import FULL_DISK
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.errors import FsdpctlError
from fsdpctl.node.os.log import log
from fsdpctl.runs.events import add_event, record_start, record_verdict
from fsdpctl.runs.evidence import AttemptFacts, read_verdict
from fsdpctl.runs.progress import with_progress
from fsdpctl.runs.store import read_record
from fsdpctl.runs.suspects import Suspect, note_suspects
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.supervise.agents import Agents, Next, Step
from fsdpctl.supervise.decide import confirmed, end_between, judge
from fsdpctl.supervise.disk import begin_attempt
from fsdpctl.supervise.hang import Hang
from fsdpctl.supervise.history import History, read_history
from fsdpctl.supervise.loss_watch import LossFinding, LossWatch
from fsdpctl.supervise.retries import decide_next
from fsdpctl.supervise.suspects import find_evidence
from fsdpctl.supervise.waiting import Waiting
from fsdpctl.supervise.world_watch import WorldWatch

POLL_S = 0.1
PAUSE_S = 1.0
"""Before the next attempt, if the last one made no step: it may fail at once again."""
RETRY_S = 1.0
"""Between two tries to reach hosts that do not answer."""
WAIT_LIMIT_S = 1800.0
"""How long the next attempt waits for hosts that it needs: enough for a reboot."""
CANCEL_CONFIRM_S = 86_400.0
"""How long a cancelled run waits for hosts on which something may still run, before it is LOST instead of CANCELLED."""
END_CONFIRM_S = 60.0
"""The same for any other run: processes of an older attempt cannot harm a resumed run."""


class Supervisor:
    """The supervisor of one run, from its newest attempt on."""

    def __init__(self, agents: Agents) -> None:
        self.agents, self.run, self.plan = agents, agents.run, agents.plan
        self.first_attempt = read_record(self.run).submissions[-1].first_attempt
        self.waiting = Waiting(self.run)
        self.left: list[str] = []  # nodes where the newest attempt may still run, one line each
        self.unconfirmed: list[str] = []  # the same at the end of a cancel

    def work(self) -> Verdict | None:
        """Run attempts until one is the last, and return its verdict; None if there was nothing to do.

        Return only when no process of the run is left on any node. Raise OSError; it may be called again then.
        """
        self.waiting.clear()
        self.agents.notifier.resend()
        if (attempt := self.agents.open_attempt()) is None:
            return None
        while True:
            step = self._find_step(attempt)
            if step.next is not Next.AGAIN or not self._prepare_next(attempt, step.verdict):
                break
            attempt = begin_attempt(self.agents, attempt)
        if self.left or self.plan.warm:
            self._sweep_until_confirmed(attempt, END_CONFIRM_S)
        return read_verdict(attempt) or step.verdict

    def _find_step(self, attempt: AttemptPaths) -> Step:
        if (verdict := read_verdict(attempt)) is not None:
            return Step(Next.AGAIN if verdict.restart else Next.LEAVE, verdict)
        step = self._run_attempt(attempt)
        self._record(attempt, step)
        if step.next is Next.REQUEUE and (refused := self.agents.hand_back(attempt, step)) is not None:
            step = Step(Next.LEAVE, refused)
            self._record(attempt, step)
        return step

    def _run_attempt(self, attempt: AttemptPaths) -> Step:
        refusal = self._start(attempt)
        if refusal is None:
            self._follow(attempt)
        end = AttemptFacts(attempt).end(len(self.plan.nodes))
        self._note_suspects(attempt, end)
        verdict = with_progress(judge(end), self.run)
        if refusal is not None and verdict.state in (State.FAILED, State.LOST):
            verdict = replace(verdict, state=State.FAILED, reason=refusal, cause=Cause.START)
            if attempt.number == self.first_attempt:
                return Step(Next.LEAVE, verdict)  # the submitting command waits for this answer
        history = self._history(attempt, verdict)
        return self.agents.decide(attempt, end, decide_next(verdict, end.stop, history, self.plan.restart_on), history)

    def _note_suspects(self, attempt: AttemptPaths, end: AttemptEnd) -> None:
        """Record evidence against nodes for other runs."""
        now, backend = time.time(), self.plan.backend
        named = [(self.agents.machine(rank), reason) for rank, reason in find_evidence(end).items()]
        found = [Suspect(backend, *of, reason, attempt.number, now) for of, reason in named if of is not None]
        note_suspects(attempt, found)

    def _start(self, attempt: AttemptPaths) -> str | None:
        """Start the agents, unless a stop or cancel was requested before; return why they could not start, or None."""
        facts = AttemptFacts(attempt)
        is_taken_over = any(node.agent.exists() for node in facts.nodes)
        if facts.is_cancelled or (facts.stop is not None and not is_taken_over):
            return None
        try:
            self.agents.start(attempt)
        except FsdpctlError as error:
            create_once(attempt.abort, AbortReason.FAULT, error.message.splitlines()[0])
            return error.message
        if is_taken_over:
            add_event(attempt, "a new supervisor continues it", EventKind.TAKEN_OVER)
        else:
            record_start(attempt, len(self.plan.nodes), is_first=attempt.number == self.first_attempt)
        return None

    def _follow(self, attempt: AttemptPaths) -> None:
        ranks = WorldWatch(attempt, self.agents.plan)
        loss = LossWatch(attempt, self.first_attempt)
        while not self.agents.is_over(attempt):
            if (hang := ranks.look()) is not None:
                self._end_hang(attempt, hang)
            if (missing := ranks.new_missing()) is not None:
                add_event(attempt, missing.text, EventKind.WAITING)
            self._report_loss(attempt, loss.look())
            check = self.agents.check(attempt)
            if check.lost is not None and create_once(attempt.abort, check.lost.cause, check.lost.reason):
                add_event(attempt, f"ends the attempt: {check.lost.reason}", EventKind.LOST)
            if check.unreachable is not None:
                self.waiting.set(attempt, check.unreachable)
            elif self.waiting:
                if not attempt.abort.exists():
                    add_event(attempt, "all hosts answer again", EventKind.ANSWERED)
                self.waiting.clear()
            time.sleep(POLL_S)
        if AttemptFacts(attempt).is_cancelled:
            self.unconfirmed = self._sweep_until_confirmed(attempt, CANCEL_CONFIRM_S)
        else:
            self.left = self.agents.end(attempt, is_last=False)
            for line in self.left:
                add_event(attempt, f"may have left something behind: {line}")
        self._report_loss(attempt, loss.look(is_last=True))  # a loss that is not finite is often what ended it

    def _report_loss(self, attempt: AttemptPaths, findings: list[LossFinding]) -> None:
        for found in findings:
            add_event(attempt, found.text, found.kind, step=found.step)
            self.agents.notifier.loss(attempt, found)

    def _end_hang(self, attempt: AttemptPaths, hang: Hang) -> None:
        if not attempt.abort.exists():
            with suppress(OSError):  # on a full disk, the reason alone must do
                write_json(attempt.hang, hang)
            if create_once(attempt.abort, AbortReason.HANG, hang.reason):
                add_event(attempt, f"ends the attempt: {hang.reason}", EventKind.HANG, **_place(hang))

    def _history(self, attempt: AttemptPaths, verdict: Verdict) -> History:
        """Return the restarts and progress of this submission, up to this attempt."""
        return read_history(self.run, self.plan, attempt, verdict)

    def _prepare_next(self, attempt: AttemptPaths, verdict: Verdict) -> bool:
        """Wait until the next attempt can start on every node; return False if it cannot in time, or must not."""
        if self._history(attempt, verdict).without_progress:
            time.sleep(PAUSE_S)
        deadline = time.monotonic() + WAIT_LIMIT_S
        while not self._should_end(attempt):
            if not (missing := self.agents.prepare(attempt)):
                self.waiting.clear()
                return not self._should_end(attempt)  # the hosts' answers may have taken long
            if time.monotonic() > deadline:
                reason = f"did not come back: {'; '.join(missing)}"
                self._record(attempt, Step(Next.LEAVE, Verdict(State.FAILED, reason, cause=Cause.LOST)))
                return False
            self.waiting.set(attempt, f"waiting for {'; '.join(missing)}")
            time.sleep(RETRY_S)
        return False

    def _should_end(self, attempt: AttemptPaths) -> bool:
        """Return whether a stop or cancel was requested between two attempts; record it as the run's end."""
        verdict = end_between(read_control_file(attempt.stop), read_control_file(attempt.abort))
        if verdict is None:
            return False
        if verdict.state is State.CANCELLED:
            self.unconfirmed = self._sweep_until_confirmed(attempt, CANCEL_CONFIRM_S)
        self._record(attempt, Step(Next.LEAVE, verdict))
        return True

    def _sweep_until_confirmed(self, attempt: AttemptPaths, limit_s: float) -> list[str]:
        """End what is left on every node until each has confirmed it or time is up; return one line for each other."""
        deadline = time.monotonic() + limit_s
        while (left := self.agents.end(attempt)) and time.monotonic() < deadline:
            self.waiting.set(attempt, f"not yet confirmed that nothing is left: {'; '.join(left)}")
            time.sleep(RETRY_S)
        if self.waiting and not left:
            add_event(attempt, "confirmed on every node that nothing is left")
        self.waiting.clear()
        return left

    def _record(self, attempt: AttemptPaths, step: Step) -> None:
        """Write the verdict. Raise OSError where it can be tried again: not before a requeue, and not for the end of a
        run on a full disk, which might wait forever for space. Then each reader computes the verdict.
        """
        facts = AttemptFacts(attempt)
        verdict = with_progress(confirmed(step.verdict, self.unconfirmed), self.run)
        try:
            record_verdict(attempt, replace(verdict, hosts=facts.hosts))
        except OSError as error:
            log(f"attempt {attempt.number} is {verdict.state}: {verdict.reason}; not written: {error}")
            is_last = step.next is Next.LEAVE or facts.stop is not None or facts.is_cancelled
            if step.next is not Next.REQUEUE and not (is_last and error.errno in FULL_DISK):
                raise
        self.agents.notifier.verdict(attempt, verdict)


def _place(hang: Hang) -> dict[str, Any]:
    """Return the values of a hang's event: the rank that the others wait for, if there is one."""
    if (culprit := hang.culprit) is None:
        return {}
    return {"node": culprit.node_rank, "rank": culprit.report.rank, "host": culprit.host}

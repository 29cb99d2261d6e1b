"""`--follow`: one live line while a run is alive, and a summary at its end. Ctrl-C detaches; the run continues."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fsdpctl.cli.explain_run import short_rows
from fsdpctl.cli.output import log, print_rows, safe
from fsdpctl.cli.terminal import fit, paint, room
from fsdpctl.cli.used_rows import read_used_rows
from fsdpctl.contract import CliExit, State
from fsdpctl.contract.clock import format_clock
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import BusyError
from fsdpctl.runs.metrics import read_metrics
from fsdpctl.verbs.status import RunStatus
from fsdpctl.verbs.watch import watch

LINE_EVERY_S = 5.0
"""Without a terminal, a line this often instead of a live one."""


def follow_run(run: RunPaths) -> int:
    """Show progress until the run has ended; return the exit code for its state."""
    try:
        status = _watch_and_resubmit(run)
    except KeyboardInterrupt:
        log(f"\ndetached; {run.root.name} continues. Attach again with: fsdpctl logs -f {run.root.name}")
        return CliExit.INTERRUPTED
    head, *rest = summary(status, read_losses(run.metrics), read_used_rows(run, status, is_brief=False))
    print_rows([head, *short_rows(run, status), *rest])
    return _exit_code(status)


def _watch_and_resubmit(run: RunPaths) -> RunStatus:
    """Watch the run to its end. If its scheduler does not requeue it, submit it again, as long as it makes progress."""
    from fsdpctl.verbs.resume import resume

    status, before = _watch(run), -1
    while status.is_stranded and (status.step or 0) > before:
        try:
            resume(run, only_stranded=True)
        except BusyError:  # another command resumes it, or has done so
            time.sleep(LINE_EVERY_S)
        else:
            log(f"{status.reason}: submitted again")
            before = status.step or 0
        status = _watch(run)
    return status


def wait_for_end(run: RunPaths, while_queued: Callable[[], object] = lambda: None) -> int:
    """Show progress until the run has ended, log its state, and return the exit code for it.

    `while_queued` is called again and again while the run waits for its scheduler.
    """
    status = _watch(run, while_queued)
    log(f"{status.run_id} {status.state}: {status.reason}")
    return _exit_code(status)


def _exit_code(status: RunStatus) -> int:
    return CliExit.OK if status.state in (State.SUCCEEDED, State.STOPPED) else CliExit.FAILED


def _watch(run: RunPaths, while_queued: Callable[[], object] = lambda: None) -> RunStatus:
    live = LiveLine()
    for observed in watch(run):
        if observed.problem:
            live.show(f"{run.root.name}  state unknown for now: {observed.problem}")
        elif observed.status.state.is_alive:
            live.show(progress_line(observed.status))
            if observed.status.state is State.QUEUED:
                while_queued()
    live.close(progress_line(observed.status))
    return observed.status


def progress_line(status: RunStatus) -> str:
    """Return run, state and progress; before the first step, what the run waits for."""
    return f"{status.run_id}  {status.state}  {progress(status) or status.reason}"


def progress(status: RunStatus) -> str:
    """Return step, loss, tokens/s and ETA as text; empty before the first step."""
    if status.step is None:
        return ""
    parts = [f"step {status.step}{f'/{status.total_steps}' if status.total_steps else ''}"]
    parts += [f"loss {status.loss:.4f}"] if status.loss is not None else []
    parts += [] if status.is_loss_finite else ["loss not finite"]
    if status.speed is not None and status.speed.tokens_per_s is not None:
        parts.append(f"{status.speed.tokens_per_s:,.0f} tokens/s")
    if status.speed is not None and status.speed.eta_s is not None and status.state.is_alive:
        parts.append(f"ETA {format_clock(status.speed.eta_s)}")
    return "  ".join(parts)


def read_losses(metrics: Path) -> tuple[float, float] | None:
    """Return the first and last loss of a run."""
    losses = [loss for line in read_metrics(metrics) if isinstance(loss := line.get("loss"), float)]
    return (losses[0], losses[-1]) if losses else None


def summary(
    status: RunStatus, losses: tuple[float, float] | None, used: Sequence[tuple[str, str]] = ()
) -> list[tuple[str, str]]:
    """Return a summary of a run that has ended, with the commands to type next. `used` are rows on what it has used."""
    rows = [("run", f"{status.run_id} {status.state}: {status.reason}")]
    if losses:
        rows.append(("loss", f"{losses[0]:.4f} -> {losses[1]:.4f} over {status.step} steps"))
    numbers = status.outcome.summary if status.outcome else {}
    if "held_out_loss" in numbers:
        entropy = numbers.get("unigram_entropy")
        entropy_text = f" nats per token; the data's unigram entropy is {entropy:.4f}" if entropy is not None else ""
        rows.append(("held-out", f"{numbers['held_out_loss']:.4f}{entropy_text}"))
    if numbers.get("tokens_per_s"):  # 0 after a single step: nothing to measure
        rows.append(("speed", f"{numbers['tokens_per_s']:,.0f} tokens/s"))
    rows += used
    rows.append(("directory", status.run_dir))
    rows += [("next" if row == 0 else "", command) for row, command in enumerate(next_commands(status))]
    return rows


def next_commands(status: RunStatus) -> list[str]:
    """Return useful commands for a run that has ended, the most useful first."""
    run_id = status.run_id
    logs, show, resume = f"fsdpctl logs {run_id}", f"fsdpctl status {run_id}", f"fsdpctl resume {run_id}"
    report = f"fsdpctl report {run_id}"
    if status.state == State.SUCCEEDED:
        return [logs, show, *([f"fsdpctl checkpoints ls {run_id}"] if status.is_bundled_trainer else []), report]
    if status.state == State.FAILED:
        return [f"fsdpctl explain {run_id}", f"{logs} --errors", resume, report]
    return [resume, logs, show, report]


class LiveLine:
    """One line that is overwritten on a terminal, and a plain line every few seconds elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._last, self._next = "", 0.0

    def show(self, text: str) -> None:
        if text == self._last:
            return
        if self._is_terminal:
            self._write(text)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_S
            log(text)
        else:
            return
        self._last = text

    def close(self, text: str) -> None:
        if self._is_terminal:
            self._write(text)
            print(file=sys.stderr, flush=True)
        elif text != self._last:
            log(text)

    def erase(self) -> None:
        """Remove the live line from the terminal."""
        if self._is_terminal and self._last:
            self._write("")

    def _write(self, text: str) -> None:
        shown = fit(safe(text), room(sys.stderr) - 1)
        print(f"\r\x1b[2K{paint(shown)}", end="", file=sys.stderr, flush=True)

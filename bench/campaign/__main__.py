"""Strike a run with a fault a minute, and measure what each costs: `make campaign`.

    python -m bench.campaign [--minutes 30] [--every 60] [--where local|ssh] [--kinds "rank KILL,rank STOP"] [--seed 1]
                             [--ranks 2] [--out campaign.jsonl]

llm-tiny on two nodes, of this machine or of two hosts in namespaces (root). Each fault is appended to the file of
`--out` as it is over. At the end the observer's numbers are printed beside the ledger's.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.campaign.compare import Struck, effective_time, longest_pause, outage_in
from bench.campaign.faults import KINDS, Kind, remove_cgroups
from bench.campaign.observer import Observer
from bench.campaign.place import LocalPlace, Place, SshPlace
from bench.cost import print_table
from fsdpctl.ledger.account import Ledger
from fsdpctl.ledger.read import read_ledger
from fsdpctl.runs.evidence import RunFacts

WAIT_S = 240.0
"""For a step after a fault."""
STEPS_BEFORE = 3
"""Of an attempt, before it is struck."""
DISK = "512m"


@dataclass(frozen=True)
class Result:
    """What a campaign has measured."""

    faults: Sequence[Struck]
    ledger: Ledger
    passed_s: float  # from the submit command to the end of the cancel command, by the observer's clock
    commands_s: float  # of them, while these two commands ran: the run begins in one and ends in the other
    effective: float  # as the observer has it


def main(argv: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--where", choices=("local", "ssh"), default="local")
    parser.add_argument("--kinds", default=",".join(kind.name for kind in KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=2, help="ranks per node")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    with small_disk() as root:
        place = (SshPlace if args.where == "ssh" else LocalPlace)(root, args.ranks)
        kinds = choose(place, args.kinds.split(","))
        began = time.time()
        place.submit()
        commands_s = time.time() - began
        observer = Observer(place.run.metrics, place.has_ended)
        try:
            faults = strike_in_turn(place, observer, kinds, args)
        finally:
            closing = time.time()
            place.close()
            passed_s = time.time() - began
            commands_s += time.time() - closing
            observer.close()
        ledger = read_ledger(RunFacts(place.run), None)
        assert ledger is not None
        effective = effective_time(observer.seen, observer.kept(), passed_s)
    faults = [with_ledger(fault, ledger) for fault in faults]
    result = Result(faults, ledger, passed_s, commands_s, effective)
    report(result, f"{args.where}, a fault every {args.every:.0f} s")
    return result


@contextmanager
def small_disk() -> Iterator[Path]:
    """Make a directory whose `home` is a disk that can be filled, where that is allowed."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as directory:
        home = Path(directory, "home")
        home.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(home)]
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        try:
            yield Path(directory)
        finally:
            if is_mounted:
                subprocess.run(["umount", "--lazy", str(home)], check=False)
            with suppress(OSError):
                remove_cgroups()


def choose(place: Place, names: Sequence[str]) -> list[Kind]:
    """Return the kinds that can be done here, and print the others."""
    for kind in KINDS:
        if kind.name in names and (why := kind.why_not(place)):
            print(f"left out: {kind.name}: {why}", flush=True)
    return [kind for kind in KINDS if kind.name in names and not kind.why_not(place)]


def strike_in_turn(place: Place, observer: Observer, kinds: Sequence[Kind], args: argparse.Namespace) -> list[Struck]:
    """Strike every so many seconds, each kind once before one comes again; wait for the run to be back in between."""
    draw, faults, queue = random.Random(args.seed), [], list[Kind]()
    require(observer.wait_step(1, WAIT_S), "no first step")
    due, deadline = time.monotonic(), time.monotonic() + 60 * args.minutes
    while (due := max(due + args.every, time.monotonic())) < deadline:
        time.sleep(max(0.0, due - time.monotonic()))
        attempt = observer.newest_attempt()
        require(observer.wait_step(attempt, WAIT_S, count=STEPS_BEFORE), f"attempt {attempt} makes no steps")
        queue = queue or draw.sample(kinds, len(kinds))
        faults.append(strike(place, observer, queue.pop(), draw))
        print(describe(faults[-1]), flush=True)
        if args.out is not None:
            with args.out.open("a") as file:
                file.write(json.dumps(asdict(faults[-1])) + "\n")
        if faults[-1].back_s is None:
            break
    time.sleep(max(0.0, deadline - time.monotonic()))
    return faults


def strike(place: Place, observer: Observer, kind: Kind, draw: random.Random) -> Struck:
    """Do it, and wait for the first new step."""
    attempt, now = observer.newest_attempt(), time.time()
    where = kind.strike(place, draw)
    since = now if kind.ends_attempt else time.time()
    back = observer.wait_step(attempt + kind.ends_attempt, WAIT_S, after=since)
    if back is None:
        return Struck(kind.name, where, now, None, attempt)
    back_s = back.time - now if kind.ends_attempt else longest_pause(observer.seen, now, back.time)
    return Struck(kind.name, where, now, back_s, back.attempt)


def require(found: object, text: str) -> None:
    if not found:
        raise RuntimeError(f"{text} in {WAIT_S:.0f} s")


def with_ledger(fault: Struck, ledger: Ledger) -> Struck:
    if fault.back_s is None:
        return fault
    return replace(fault, ledger_s=outage_in(ledger, fault.time, fault.time + fault.back_s))


def describe(fault: Struck) -> str:
    back = f"back after {fault.back_s:.1f} s, attempt {fault.attempt}" if fault.back_s is not None else "not back"
    return f"{time.strftime('%H:%M:%S', time.localtime(fault.time))} {fault.kind}, {fault.where}: {back}"


def report(result: Result, where: str) -> None:
    """Print what each kind costs, and the observer's numbers beside the ledger's."""
    rows = []
    for name in dict.fromkeys(fault.kind for fault in result.faults):
        own = [fault for fault in result.faults if fault.kind == name]
        back = [fault.back_s for fault in own if fault.back_s is not None]
        lost = [fault.ledger_s for fault in own if fault.ledger_s is not None]
        numbers = (statistics.median(back), max(back), statistics.median(lost)) if back else ()
        rows.append([name, f"{len(back)} of {len(own)}", *(f"{number:.2f}" for number in numbers)])
    header = ("fault", "back", "to the first new step, median s", "worst s", "of it lost by the ledger, median s")
    print_table(f"llm-tiny on {where}", header, rows)
    ledger = result.ledger
    pairs = [
        ["run, s", f"{result.passed_s:.1f}", f"{ledger.total_s:.1f}"],
        ["effective time", f"{result.effective:.3f}", f"{ledger.effective or 0:.3f}"],
    ]
    print_table("outside and ledger", ("", "outside", "ledger"), pairs)
    uses = [[str(use), f"{seconds:.1f}", f"{seconds / ledger.total_s:.1%}"] for use, seconds in ledger.seconds.items()]
    print_table("ledger", ("use", "seconds", "share"), uses)


if __name__ == "__main__":
    main()

"""One node's files, mirrored into the run directory here, and what the others say, carried to the node.

Where hosts share no disk, this is the shared disk: whoever reads the run directory on the submitting machine, from
`status` to the supervisor's own judgement, sees what the nodes wrote a moment ago; and an agent finds in its own run
directory what it would find in a shared one: the notes, and with whom it meets. Heartbeats of peers are not carried,
so that a run outlives a submitting machine that is cut off.
"""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from pathlib import Path

from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.ssh.sync.append_sync import append_sync, replace
from fsdpctl.backends.ssh.sync.heartbeat_age import HeartbeatAge
from fsdpctl.backends.ssh.sync.host_files import HostFiles, Stamp
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.contract.control_files import create_once, parse_control_file
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.formats.manifest import choose_committed, committed
from fsdpctl.contract.paths import CHECKPOINT_MANIFEST, DIR_MODE, AttemptPaths, RunPaths

EVERY_S = 0.5
ANSWER_S = 5.0
MAX_SMALL = 16 * 2**20
"""No record is so large; what claims to be is cut off."""

_SIGNS = ("heartbeat", "progress-")
_GROWING = (".log", ".jsonl", ".txt")


class Mirror:
    """The files of one node in one attempt, kept alike by a thread until `close`."""

    def __init__(self, link: Link, run: RunPaths, attempt: AttemptPaths, node_rank: int, num_nodes: int) -> None:
        self._run, self._attempt, self._rank, self._num_nodes = run, attempt, node_rank, num_nodes
        self._node = attempt.node(node_rank)
        self._host = HostFiles(link, ANSWER_S)
        self._seen: dict[Path, Stamp] = {}
        self._carried: dict[Path, bytes] = {}
        self._is_here: bool | None = None
        self.heartbeat_age = HeartbeatAge()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"mirror-{node_rank}", daemon=True)

    @property
    def has_ended(self) -> bool:
        return self._node.end.exists()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Look a last time, if the host answers, and end."""
        self._closing.set()
        self._thread.join()
        self._look()
        self._host.close()

    def _work(self) -> None:
        while not self._closing.wait(EVERY_S):
            self._look()

    def _look(self) -> None:
        try:
            self._exchange()
        except HostError:
            self.heartbeat_age.mark_unseen()
        except OSError as error:  # our own disk, where this log lies, too
            with suppress(OSError):
                print(f"node {self._rank} is not mirrored: {error}", flush=True)

    def _exchange(self) -> None:
        # The node's own files are listed first and its last word is taken last: who sees it has seen all the rest.
        own = self._host.files(self._node.root)
        if not self._shares_our_disk():
            self._exchange_all(own)
        beat = own.get(self._node.heartbeat.name)
        self.heartbeat_age.update(beat, begun=self._node.agent.name in own)

    def _shares_our_disk(self) -> bool:
        """The submitting machine may be one of the nodes; nobody else has the supervisor's file."""
        if self._is_here is None:
            self._is_here = self._host.read(self._run.supervisor, 0, MAX_SMALL) == read_bytes(self._run.supervisor)
        return self._is_here

    def _exchange_all(self, own: dict[str, Stamp]) -> None:
        notes = self._host.files(self._attempt.root)
        for path in (self._attempt.stop, self._attempt.abort):
            self._exchange_control_file(path, is_there=path.name in notes)
        self._carry_ready()
        complete = True
        if self._rank == 0:
            complete = self._take_run(notes)
        self._node.root.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
        for name, stamp in sorted(own.items(), key=lambda item: item[0] == self._node.end.name):
            path = self._node.root / name
            if not name.startswith(".") and (complete or path != self._node.end):
                complete = self._take(path, stamp) and complete

    def _take_run(self, of_attempt: dict[str, Stamp]) -> bool:
        """What rank 0 writes outside of its node's directory."""
        board = self._run.tensorboard
        found = {board / name: stamp for name, stamp in self._host.files(board).items()}
        if (metrics := self._host.files(self._run.root).get(self._run.metrics.name)) is not None:
            found[self._run.metrics] = metrics
        if (outcome := of_attempt.get(self._attempt.outcome.name)) is not None:
            found[self._attempt.outcome] = outcome
        self._take_manifests()
        return min([self._take(path, stamp) for path, stamp in found.items()], default=True)

    def _take_manifests(self) -> None:
        """The files of a checkpoint stay where they are; its manifest says here that it exists."""
        kept = committed(self._run.checkpoints)
        theirs = choose_committed(self._host.directories(self._run.checkpoints))
        for name in theirs:
            path = self._run.checkpoints / name / CHECKPOINT_MANIFEST
            if name not in kept and (data := self._host.read(path, 0, MAX_SMALL)):
                path.parent.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
                replace(path, data)
        for name in forgotten(kept, theirs):
            shutil.rmtree(self._run.checkpoints / name)

    def _take(self, path: Path, stamp: Stamp) -> bool:
        """Make our copy equal to the node's; False when there is more of it."""
        if self._seen.get(path) == stamp:
            return True
        complete = True
        path.parent.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
        if path.name.startswith(_SIGNS):
            path.touch(mode=0o600)  # that it moves is all that it says
        elif path.suffix in _GROWING or path.parent == self._run.tensorboard:
            complete = append_sync(path, stamp.size, lambda offset, size: self._host.read(path, offset, size))
        elif data := self._host.read(path, 0, MAX_SMALL):
            replace(path, data)
        if complete:
            self._seen[path] = stamp
        return complete

    def _exchange_control_file(self, path: Path, *, is_there: bool) -> None:
        """Whoever was first is heard everywhere; afterwards ours is the note, for it may have been made stronger."""
        if is_there and not path.exists():
            said = parse_control_file(self._host.read(path, 0, MAX_SMALL))
            create_once(path, said.cause, said.reason)
        self._carry(path)

    def _carry_ready(self) -> None:
        """The head waits for all nodes, the others for the head."""
        for rank in range(1, self._num_nodes) if self._rank == 0 else (0,):
            peer = self._attempt.node(rank)
            if peer.ready.exists() and peer.ready not in self._carried:
                self._host.make_directory(peer.root)
                self._carry(peer.ready)

    def _carry(self, path: Path) -> None:
        try:
            data = read_bytes(path)
        except FileNotFoundError:
            return
        if self._carried.get(path) != data:
            self._host.write(path, data)
            self._carried[path] = data


def forgotten(kept: list[str], theirs: list[str]) -> list[str]:
    """Checkpoints that the node has removed. One that it has not got yet, on a disk of its own, is not forgotten."""
    return [name for name in kept if name not in theirs and theirs and name < theirs[-1]]

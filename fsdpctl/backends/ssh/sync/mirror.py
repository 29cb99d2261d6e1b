"""Mirror one node's files into the run directory here, and send the node the control files of the others.

Without a shared disk, this replaces it: every reader of the run directory on the submitting machine, from `status` to
the supervisor, sees what the nodes wrote a moment ago; and an agent finds in its own run directory what it would find
in a shared one: the control files, and the peers that are ready. Heartbeats of peers are not sent, so that a run
outlives a submitting machine that is cut off.
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
"""Larger than any record; longer files are cut off."""

_TOUCHED = "progress-"
_GROWING = (".log", ".jsonl", ".times", ".txt")


class Mirror:
    """The files of one node in one attempt, mirrored by a thread until `close`."""

    def __init__(self, link: Link, run: RunPaths, attempt: AttemptPaths, node_rank: int, num_nodes: int) -> None:
        self._run, self._attempt, self._rank, self._num_nodes = run, attempt, node_rank, num_nodes
        self._node = attempt.node(node_rank)
        self._host = HostFiles(link, ANSWER_S)
        self._seen: dict[Path, Stamp] = {}
        self._sent: dict[Path, tuple[int, bytes]] = {}  # when it was changed here, and its content
        self._has_run_dir: bool | None = None
        self.heartbeat_age = HeartbeatAge()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"mirror-{node_rank}", daemon=True)

    @property
    def has_ended(self) -> bool:
        return self._node.end.exists()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Mirror a last time, if the host answers, and end the thread."""
        self._closing.set()
        self._thread.join()
        self._try_exchange()
        self._host.close()

    def _work(self) -> None:
        while not self._closing.wait(EVERY_S):
            self._try_exchange()

    def _try_exchange(self) -> None:
        try:
            self._exchange()
        except HostError:
            self.heartbeat_age.mark_unseen()
        except OSError as error:  # the disk of this machine, which also has this log
            with suppress(OSError):
                print(f"node {self._rank} is not mirrored: {error}", flush=True)

    def _exchange(self) -> None:
        # The node's own files are listed first and its exit record is copied last: its readers find all the rest.
        own = self._host.files(self._node.root)
        if not self._shares_run_dir():
            self._exchange_all(own)
        beat = own.get(self._node.heartbeat.name)
        self.heartbeat_age.update(beat, begun=self._node.agent.name in own)

    def _shares_run_dir(self) -> bool:
        """Return whether the node is the submitting machine: no other host has the supervisor's file."""
        if self._has_run_dir is None:
            self._has_run_dir = self._host.read(self._run.supervisor, 0, MAX_SMALL) == read_bytes(self._run.supervisor)
        return self._has_run_dir

    def _exchange_all(self, own: dict[str, Stamp]) -> None:
        files = self._host.files(self._attempt.root)
        for path in (self._attempt.stop, self._attempt.abort):
            self._exchange_control_file(path, is_there=path.name in files)
        self._send(self._attempt.stacks_request)
        self._send(self._attempt.memory_snapshot_request)
        self._send_ready()
        complete = True
        if self._rank == 0:
            complete = self._copy_run_files(files)
        self._node.root.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
        for name, stamp in sorted(own.items(), key=lambda item: item[0] == self._node.end.name):
            path = self._node.root / name
            if not name.startswith(".") and (complete or path != self._node.end):
                complete = self._copy(path, stamp) and complete

    def _copy_run_files(self, of_attempt: dict[str, Stamp]) -> bool:
        """Copy what rank 0 writes outside of its node's directory; return whether the copies are complete."""
        board = self._run.tensorboard
        found = {board / name: stamp for name, stamp in self._host.files(board).items()}
        in_run = self._host.files(self._run.root)
        for path in (self._run.metrics, self._run.evaluations):
            if (stamp_of_file := in_run.get(path.name)) is not None:
                found[path] = stamp_of_file
        if (outcome := of_attempt.get(self._attempt.outcome.name)) is not None:
            found[self._attempt.outcome] = outcome
        self._copy_manifests()
        return min([self._copy(path, stamp) for path, stamp in found.items()], default=True)

    def _copy_manifests(self) -> None:
        """Copy only the manifests of checkpoints: they show here which ones exist."""
        kept = committed(self._run.checkpoints)
        on_node = choose_committed(self._host.directories(self._run.checkpoints))
        for name in on_node:
            path = self._run.checkpoints / name / CHECKPOINT_MANIFEST
            if name not in kept and (data := self._host.read(path, 0, MAX_SMALL)):
                path.parent.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
                replace(path, data)
        for name in find_removed(kept, on_node):
            shutil.rmtree(self._run.checkpoints / name)

    def _copy(self, path: Path, stamp: Stamp) -> bool:
        """Update the copy of a file; return False while it is not complete."""
        if self._seen.get(path) == stamp:
            return True
        complete = True
        path.parent.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
        if path.name.startswith(_TOUCHED):
            path.touch(mode=0o600)  # only its time matters
        elif path.suffix in _GROWING or path.parent == self._run.tensorboard:
            complete = append_sync(path, stamp.size, lambda offset, size: self._host.read(path, offset, size))
        elif (data := self._host.read(path, 0, MAX_SMALL)) or path == self._node.heartbeat:
            replace(path, data)
        if complete:
            self._seen[path] = stamp
        return complete

    def _exchange_control_file(self, path: Path, *, is_there: bool) -> None:
        """Copy the node's file here if there is none yet; then send ours, because a cancel may have replaced it."""
        if is_there and not path.exists():
            request = parse_control_file(self._host.read(path, 0, MAX_SMALL))
            create_once(path, request.cause, request.reason)
        self._send(path)

    def _send_ready(self) -> None:
        """Send which peers are ready: the head waits for all nodes, the others for the head."""
        for rank in range(1, self._num_nodes) if self._rank == 0 else (0,):
            peer = self._attempt.node(rank)
            if peer.ready.exists() and peer.ready not in self._sent:
                self._host.make_directory(peer.root)
                self._send(peer.ready)

    def _send(self, path: Path) -> None:
        """Send a file that is new here or was written or touched again: a touch alone may be a request."""
        try:
            changed, data = path.stat().st_mtime_ns, read_bytes(path)
        except FileNotFoundError:
            return
        if self._sent.get(path) != (changed, data):
            self._host.write(path, data)
            self._sent[path] = changed, data


def find_removed(kept: list[str], on_node: list[str]) -> list[str]:
    """Return the checkpoints that the node has removed; not those newer than its own, which it may not have yet."""
    return [name for name in kept if name not in on_node and on_node and name < on_node[-1]]

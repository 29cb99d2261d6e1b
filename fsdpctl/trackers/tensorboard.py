"""TensorBoard's files, for own scripts: the bundled trainer writes its own. Needs `tensorboard`, and no torch."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.trackers.tracker import EndState, Row, TrackedRun, TrackerError


class TensorBoardTracker:
    """One event file of the run, for this attempt."""

    def __init__(self, run: TrackedRun) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise TrackerError(
                "tensorboard is not installed in the Python of the ranks: pip install tensorboard"
            ) from None
        self._writer = EventFileWriter(str(run.tensorboard))
        print("TensorBoard:", run.tensorboard, flush=True)

    def last_step(self) -> None:
        """Return None: the files of older attempts are not read."""

    def send(self, rows: Sequence[Row]) -> None:
        """Append the rows and flush them. Raise OSError."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        for row in rows:
            values = [Summary.Value(tag=key, simple_value=value) for key, value in row.values.items()]
            self._writer.add_event(Event(wall_time=row.time, step=row.step, summary=Summary(value=values)))
        self._writer.flush()

    def close(self, end: EndState) -> None:
        """Close the file."""
        self._writer.close()

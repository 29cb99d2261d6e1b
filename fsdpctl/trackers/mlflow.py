"""MLflow. The run is found by a tag with the id of fsdpctl, so a later attempt continues it from any machine.

Server, experiment and credentials are MLflow's own variables: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME, and by
`pass_env` MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD. `mlflow-skinny` is enough.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fsdpctl.trackers.tracker import EndState, Row, TrackedRun, TrackerError

if TYPE_CHECKING:
    from mlflow.entities import Run

_TAG = "fsdpctl.run_id"
_STEPS = "attempt"
"""A value of every row: its history has every step."""
_STATUS: Mapping[EndState, str] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_MAX_METRICS = 1000
_MAX_PARAMS = 100
"""Limits of the server for one request."""
_MAX_TEXT = 6000
_MAX_NAME = 250


class MlflowTracker:
    """One run of an MLflow server."""

    def __init__(self, run: TrackedRun) -> None:
        if "MLFLOW_TRACKING_URI" not in os.environ:
            raise TrackerError("MLFLOW_TRACKING_URI is not set: name the server in `env` of the job or the profile")
        # Its defaults try for ten minutes: this process tries again by itself, and logs that.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        try:
            from mlflow.exceptions import MlflowException
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise TrackerError(
                "mlflow is not installed in the Python of the ranks: pip install mlflow-skinny"
            ) from None
        try:
            self._client = MlflowClient()
            self._id, self._is_new = self._find_or_create(run)
        except MlflowException as error:
            raise TrackerError(f"MLflow: {error}") from None
        print("MLflow: run", self._id, "at", os.environ["MLFLOW_TRACKING_URI"], flush=True)

    def _find_or_create(self, run: TrackedRun) -> tuple[str, bool]:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or run.job_name
        experiment = self._client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self._client.create_experiment(name)
        if found := self._client.search_runs([number], f"tags.`{_TAG}` = '{run.run_id}'", max_results=1):
            self._client.update_run(found[0].info.run_id, status="RUNNING")
            self._log_params(found[0], run.config)  # an earlier try may have failed there
            return found[0].info.run_id, False
        created = self._client.create_run(number, tags={_TAG: run.run_id}, run_name=run.run_id)
        self._log_params(created, run.config)
        return created.info.run_id, True

    def _log_params(self, run: Run, config: Mapping[str, Any]) -> None:
        """Log those parameters that the run does not have: the server refuses another value of one."""
        from mlflow.entities import Param

        values = {_name(key): str(value)[:_MAX_TEXT] for key, value in flatten(config)}
        params = [Param(name, value) for name, value in values.items() if name not in run.data.params]
        for first in range(0, len(params), _MAX_PARAMS):
            self._client.log_batch(run.info.run_id, params=params[first : first + _MAX_PARAMS])

    def last_step(self) -> int | None:
        """Return the last step that the server has."""
        if self._is_new:
            return -1
        return max((metric.step for metric in self._client.get_metric_history(self._id, _STEPS)), default=-1)

    def send(self, rows: Sequence[Row]) -> None:
        """Send the rows; a request has only whole ones, so that all of a step is there or nothing.

        A row that is too long for one request has several.
        """
        from mlflow.entities import Metric

        batch: list[Any] = []
        for row in rows:
            metrics = [Metric(_name(key), value, int(row.time * 1000), row.step) for key, value in row.values.items()]
            if len(batch) + len(metrics) > _MAX_METRICS:
                self._log_metrics(batch)
                batch = []
            batch += metrics
        self._log_metrics(batch)

    def _log_metrics(self, batch: Sequence[Any]) -> None:
        for first in range(0, len(batch), _MAX_METRICS):
            self._client.log_batch(self._id, metrics=batch[first : first + _MAX_METRICS])

    def close(self, end: EndState) -> None:
        """Set the status of the run."""
        self._client.set_terminated(self._id, _STATUS[end], int(time.time() * 1000))


def flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the scalars and lists of nested mappings by their dotted keys."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _name(key: str) -> str:
    """Return the name of a value as MLflow takes it: with its characters, and as a path below a directory."""
    parts = re.sub(r"[^\w. /:-]", "_", key)[:_MAX_NAME].split("/")
    return "/".join(part for part in parts if part.strip(".")).lstrip(".") or "_"

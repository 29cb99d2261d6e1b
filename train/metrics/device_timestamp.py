"""A moment in the device's own time, recorded without waiting for the device."""

from __future__ import annotations

import time

import torch


class DeviceTimestamp:
    """Now, on this device: after all work that was queued before."""

    def __init__(self, device: torch.device) -> None:
        self.host_s = time.perf_counter()
        self.event = torch.cuda.Event(enable_timing=True) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        if self.event:
            self.event.record()

    def wait(self) -> None:
        """Wait until the device has reached this moment."""
        if self.event:
            self.event.synchronize()

    def seconds_since(self, earlier: DeviceTimestamp) -> float:
        """Return the seconds between two moments, both of which must have passed."""
        if self.event and earlier.event:
            return float(earlier.event.elapsed_time(self.event)) / 1000
        return self.host_s - earlier.host_s

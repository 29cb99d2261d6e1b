"""Read GPUs through NVML, the library behind nvidia-smi, without a package: nodes have the standard library only.

Every value may be missing: a GPU, a driver or a virtual machine does not report all of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import Structure, byref, c_char_p, c_double, c_uint, c_ulonglong, c_void_p, create_string_buffer
from dataclasses import dataclass

from fsdpctl.contract.node_report import GpuSample

LIBRARY = "libnvidia-ml.so.1"
_TEXT_BYTES = 96
_TEMPERATURE_GPU, _CLOCK_SM = 0, 1
_THROTTLE = {
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
"""Reasons in nvml.h, without those of an idle GPU and of clocks that a user has set."""


class NvmlError(Exception):
    """There is no NVML here, or it does not start."""


class _Memory(Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Utilization(Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


@dataclass(frozen=True)
class _Device:
    """A GPU, with what does not change."""

    index: int
    handle: c_void_p
    name: str
    power_limit_w: float | None
    max_sm_clock_mhz: int | None
    energy_mj: int | None  # its counter at the start
    activity: Activity | None


class Nvml:
    """The GPUs that this process may use."""

    def __init__(self, env: Mapping[str, str]) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise NvmlError(str(error)) from None
        if code := self._library.nvmlInit_v2():
            raise NvmlError(f"nvmlInit_v2 returns {code}")
        devices = [self._open(index) for index in range(self._uint("nvmlDeviceGetCount_v2") or 0)]
        self._devices = [device for device in devices if device is not None and self._is_visible(device, env)]

    def sample(self) -> tuple[GpuSample, ...]:
        """Return the present state of each GPU. Activity is that since the last call."""
        return tuple(map(self._sample, self._devices))

    def names(self) -> tuple[str, ...]:
        """Return the driver's name of each GPU."""
        return tuple(device.name for device in self._devices)

    def _sample(self, device: _Device) -> GpuSample:
        memory, busy = _Memory(), _Utilization()
        has_memory = self._ask("nvmlDeviceGetMemoryInfo", device.handle, byref(memory))
        has_busy = self._ask("nvmlDeviceGetUtilizationRates", device.handle, byref(busy))
        power = self._uint("nvmlDeviceGetPowerUsage", device.handle)
        sm_activity, tensor_activity = device.activity.measure() if device.activity else (None, None)
        return GpuSample(
            index=device.index,
            name=device.name,
            busy=busy.gpu / 100 if has_busy else None,
            sm_activity=sm_activity,
            tensor_activity=tensor_activity,
            memory_used=memory.used if has_memory else None,
            memory_total=memory.total if has_memory else None,
            power_w=_watts(power),
            power_limit_w=device.power_limit_w,
            energy_j=self._energy_since(device),
            temperature_c=self._uint("nvmlDeviceGetTemperature", device.handle, _TEMPERATURE_GPU),
            sm_clock_mhz=self._uint("nvmlDeviceGetClockInfo", device.handle, _CLOCK_SM),
            max_sm_clock_mhz=device.max_sm_clock_mhz,
            throttle=self._throttle(device.handle),
        )

    def _energy_since(self, device: _Device) -> float | None:
        now = self._energy_mj(device.handle)
        return (now - device.energy_mj) / 1000 if now is not None and device.energy_mj is not None else None

    def _energy_mj(self, handle: c_void_p) -> int | None:
        value = c_ulonglong()
        return value.value if self._ask("nvmlDeviceGetTotalEnergyConsumption", handle, byref(value)) else None

    def _open(self, index: int) -> _Device | None:
        handle = c_void_p()
        if not self._ask("nvmlDeviceGetHandleByIndex_v2", index, byref(handle)):
            return None
        return _Device(
            index,
            handle,
            self._text("nvmlDeviceGetName", handle),
            _watts(self._uint("nvmlDeviceGetEnforcedPowerLimit", handle)),
            self._uint("nvmlDeviceGetMaxClockInfo", handle, _CLOCK_SM),
            self._energy_mj(handle),
            Activity.open(self._library, handle),
        )

    def _is_visible(self, device: _Device, env: Mapping[str, str]) -> bool:
        """Return whether CUDA_VISIBLE_DEVICES names the GPU by its index or by the start of its UUID."""
        if (chosen := env.get("CUDA_VISIBLE_DEVICES")) is None:
            return True
        uuid = self._text("nvmlDeviceGetUUID", device.handle)
        entries = [entry.strip() for entry in chosen.split(",")]
        return any(
            entry == str(device.index) or (entry.startswith("GPU-") and uuid.startswith(entry)) for entry in entries
        )

    def _throttle(self, handle: c_void_p) -> tuple[str, ...]:
        mask = c_ulonglong()
        names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")  # the older one
        if not any(self._ask(name, handle, byref(mask)) for name in names):
            return ()
        return tuple(reason for bit, reason in _THROTTLE.items() if mask.value & bit)

    def _ask(self, name: str, *arguments: object) -> bool:
        return _ask(self._library, name, *arguments)

    def _uint(self, name: str, *arguments: object) -> int | None:
        value = c_uint()
        return value.value if self._ask(name, *arguments, byref(value)) else None

    def _text(self, name: str, handle: c_void_p) -> str:
        text = create_string_buffer(_TEXT_BYTES)
        return text.value.decode(errors="replace") if self._ask(name, handle, text, _TEXT_BYTES) else ""


class _MetricInfo(Structure):
    _fields_ = (("short_name", c_char_p), ("long_name", c_char_p), ("unit", c_char_p))


class _Metric(Structure):
    _fields_ = (("id", c_uint), ("result", c_uint), ("value", c_double), ("info", _MetricInfo))


class _Metrics(Structure):
    _fields_ = (
        ("version", c_uint),
        ("count", c_uint),
        ("before", c_void_p),
        ("now", c_void_p),
        ("metrics", _Metric * 512),  # more than any version of nvml.h has: the driver reads the first `count`
    )


class _Support(Structure):
    _fields_ = (("version", c_uint), ("is_supported", c_uint))


class Activity:
    """The counters of one GPU (GPM, from Hopper on): how much its multiprocessors and tensor cores worked."""

    _SM, _TENSOR = 2, 5  # NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_ANY_TENSOR_UTIL, in percent

    @classmethod
    def open(cls, library: ctypes.CDLL, handle: c_void_p) -> Activity | None:
        """Return the counters of a GPU; None if it has none."""
        support, samples = _Support(1), (c_void_p(), c_void_p())
        if not _ask(library, "nvmlGpmQueryDeviceSupport", handle, byref(support)) or not support.is_supported:
            return None
        if not all(_ask(library, "nvmlGpmSampleAlloc", byref(sample)) for sample in samples):
            return None
        return cls(library, handle, *samples)

    def __init__(self, library: ctypes.CDLL, handle: c_void_p, before: c_void_p, now: c_void_p) -> None:
        self._library, self._handle, self._before, self._now = library, handle, before, now
        self._has_before = self._read(before)

    def measure(self) -> tuple[float | None, float | None]:
        """Return the activity of multiprocessors and tensor cores since the last call; None where it is not known."""
        if not self._read(self._now):
            return None, None
        metrics = _Metrics(1, 2, self._before, self._now)
        metrics.metrics[0].id, metrics.metrics[1].id = self._SM, self._TENSOR
        is_known = self._has_before and _ask(self._library, "nvmlGpmMetricsGet", byref(metrics))
        self._before, self._now, self._has_before = self._now, self._before, True
        sm, tensor = (one.value / 100 if is_known and one.result == 0 else None for one in metrics.metrics[:2])
        return sm, tensor

    def _read(self, sample: c_void_p) -> bool:
        return _ask(self._library, "nvmlGpmSampleGet", self._handle, sample)


def _ask(library: ctypes.CDLL, name: str, *arguments: object) -> bool:
    """Call a function of NVML; return False if this version does not have it, or it reports an error."""
    try:
        function = getattr(library, name)
    except AttributeError:
        return False
    return bool(function(*arguments) == 0)


def _watts(milliwatts: int | None) -> float | None:
    return milliwatts / 1000 if milliwatts is not None else None

"""From the debug level to environment variables of the ranks. Pure. `docs/networks.md` lists the cost of each level.

torch >= 2.11 reads the TORCH_FR_* names first; the older TORCH_NCCL_TRACE_BUFFER_SIZE and
TORCH_NCCL_DEBUG_INFO_TEMP_FILE are their former spelling.
"""

from __future__ import annotations

from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.plan import Debug, Device

FLIGHT_RECORDS = 2000
LONG_FLIGHT_RECORDS = 20_000


def always(device: Device, node: NodePaths) -> dict[str, str]:
    """Return the variables that are set at every level, because they cost nothing. Profile and job override them."""
    of_all = {"PYTHONFAULTHANDLER": "1", "TORCH_FR_BUFFER_SIZE": str(FLIGHT_RECORDS)}
    if device == "cpu":
        return of_all
    return {
        **of_all,
        # torch dumps by default, too, but into the node's home directory, where the next run overwrites the file.
        "TORCH_FR_DUMP_TEMP_FILE": str(node.flight_records),
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        # An asynchronous NCCL error ends the process without waiting for a communicator that may hang in its abort.
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
    }


def on_demand(level: Debug, device: Device, node: NodePaths) -> dict[str, str]:
    """Return the variables that a level adds. They override profile and job."""
    if level == "off":
        return {}
    detail = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL" if level == "trace" else "INFO"}
    if level == "trace":
        detail["TORCH_SHOW_CPP_STACKTRACES"] = "1"
        detail["TORCH_FR_BUFFER_SIZE"] = str(LONG_FLIGHT_RECORDS)
    if device == "cpu":
        return detail
    nccl = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(node.nccl_log)}
    if level == "trace":
        nccl["NCCL_DEBUG_SUBSYS"] = "INIT,BOOTSTRAP,ENV,NET,GRAPH,TUNING,COLL"
    return {**detail, **nccl}

"""Which machines holds have."""

from __future__ import annotations

import time

from fsdpctl.contract.codec import find_json
from fsdpctl.holds.decide import ends_at
from fsdpctl.holds.record import Hold, find_held
from fsdpctl.holds.store import list_holds
from fsdpctl.holds.use import read_use


def read_taken() -> dict[str, str]:
    """Return machine -> name of the hold, of the holds that have not ended."""
    found: dict[str, str] = {}
    for hold in list_holds():
        record, held = find_json(Hold, hold.record), find_held(hold)
        if record is not None and held is not None and time.time() < ends_at(record, held, read_use(hold)):
            found |= dict.fromkeys(held.machines, record.name)
    return found

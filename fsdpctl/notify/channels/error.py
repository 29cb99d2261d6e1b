"""The one error of all channels."""

from __future__ import annotations


class DeliveryError(Exception):
    """A notice was not taken. `is_final`: another try would end in the same way."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final

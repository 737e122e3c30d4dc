"""What a loader is going to open, and whether its opens go that way (pure); for programs that know
their order themselves, `announce` and `Files` (docs/orders.md)."""

from fanstore.foresight.order.announcing import Files, announce

__all__ = ["Files", "announce"]

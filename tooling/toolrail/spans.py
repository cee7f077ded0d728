"""Say how long something lasted, as a person would.

Is: milliseconds to words. Is not: clocks. Above: `toolrail.doctor`, the command line.
Below: nothing.
"""

_STEPS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def age_text(age_ms: int | None) -> str:
    """Return how long something lasted, in its two largest units; "-" when it did not."""
    if age_ms is None:
        return "-"
    age_s = max(0, age_ms) // 1000
    for size, unit, small, rest in _STEPS:
        if age_s >= size:
            more = age_s % size // small
            return f"{age_s // size} {unit} {more} {rest}" if more else f"{age_s // size} {unit}"
    return f"{age_s} s"


def since(now_ms: int, then_ms: int) -> str:
    """Return how long ago an instant was, in words; "-" for an instant that is not known."""
    return age_text(now_ms - then_ms if then_ms else None)

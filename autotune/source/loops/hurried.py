"""What a text in which all comes sooner asks for while it runs."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

_asked: Counter[str] = Counter()
_ARRAYS = ("ndarray", "Tensor")  # known by name: nothing is imported for them


def few(items: Iterable[Any], most: int, first: int) -> Iterable[Any]:
    """The `first` of `items`, and so many more that there are `most`, evenly from all that follow,
    the last one among them: what comes late in the data comes soon, and the last may be told by its
    number. Of what can only be gone through from its beginning, the first.
    """
    if not isinstance(items, range | list | tuple) and type(items).__name__ not in _ARRAYS:
        return islice(items, most)
    known: Any = items
    count, rest = len(known), most - first
    if count <= most:
        return items
    along = (first - 1 + (count - first) * at // rest for at in range(1, rest + 1))
    return [known[at] for at in (*range(first), *along)]


def late(place: str, times: int) -> bool:
    """Whether it was asked for `place` more than so many `times` in this process."""
    _asked[place] += 1
    return _asked[place] > times

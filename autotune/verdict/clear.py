"""When a measured ratio is worth saying, and when more turns would not change what is said."""

from autotune.measurement.ratios import Ratio

# Less is not worth a change to a program: it is the difference between two starts of the same one.
MINIMUM_GAIN = 1.02

# A gain of less is not worth another search.
WORTH_MORE_TIME = 1.05

# A ratio is known well enough when its interval spans no more than this, high over low.
PRECISE = 1.15
# Where it spans more than this, its lower end is what can be promised.
ROUGH = 1.5


def is_clear(speedup: Ratio) -> bool:
    """Whether more turns would change nothing about what is said of `speedup`: that it is slower,
    or, precisely enough, that it is faster or no faster.
    """
    told = speedup.low > 1 or speedup.high < MINIMUM_GAIN
    return speedup.high < 1 or (told and not speedup.spans(PRECISE))

"""What runs read from storage: the profile is the first to read its samples, and later runs find
the same ones in memory, as all train in the same order.
"""

from collections.abc import Sequence
from dataclasses import replace

from autotune.measurement.measurement import Measurement
from autotune.profiling.profile import FIRST_READ, FROM_MEMORY, FROM_STORAGE, Doubt, Profile
from autotune.workload.seen import Seen
from autotune.workload.window import AS_IS, Window

# What reads less in a second does not read its samples there: logs, pages of libraries. A disk that
# seeks for 10 ms before each 100 KB would be busy with it for a tenth of the time. Chosen, not
# measured.
NOTABLE_BYTES = 1_000_000
# A run has found most of its samples in memory where it reads less than this share of what the
# profile has read for each.
FROM_STORAGE_SHARE = 0.5
# And all of them, but for what the file system looks up, where it reads less than this. Chosen, not
# measured.
LOOK_UP_SHARE = 0.1


def reads_notably(windows: Sequence[Window]) -> bool:
    """Whether the run of these windows read its samples from storage, as far as that is known."""
    read = _bytes_per_second(windows)
    return read is not None and read >= NOTABLE_BYTES


def doubts_of_storage(
    windows: Sequence[Window], *, warm: Sequence[Window], seen: Seen
) -> tuple[Doubt, ...]:
    """What is to be known of a profile, from its windows as it is, oldest first, and those `warm`
    ones that came before.
    """
    if not reads_notably(windows):
        return ()
    if _was_read_once(windows, warm, seen):
        return (
            Doubt(
                name=FIRST_READ,
                evidence=f"It read {_speed(windows)} from storage as it was profiled, and next to "
                "nothing any more once an epoch was over: its data fit in memory, and the "
                "first epoch may be slower than those that follow.",
            ),
        )
    return (
        Doubt(
            name=FROM_STORAGE,
            evidence=f"It read {_speed(windows)} from storage as it was profiled: where its data "
            "fit in memory, it does so in the first epoch alone.",
            advice="Measure again: what was read is in memory then where it fits there.",
        ),
    )


def _was_read_once(windows: Sequence[Window], warm: Sequence[Window], seen: Seen) -> bool:
    """Whether all of the data was seen to stay in memory: an epoch was over before the last window,
    in which it did not read again what it had read before.
    """
    if seen.loader is None:
        return False
    epoch = max(seen.loader.dataset_length or 0, (seen.loader.length or 0) * seen.samples_per_step)
    trained = sum(window.samples for window in (*warm, *windows[:-1]))
    read = [_bytes_per_sample([window]) or 0.0 for window in windows]
    return 0 < epoch <= trained and read[-1] < LOOK_UP_SHARE * max(read)


def told_of_memory(profile: Profile, outcomes: Sequence[object]) -> Profile:
    """`profile`, with the doubt that the runs timed after it did not wait for storage as it did,
    where any of these `outcomes` did not.
    """
    windows = [window for window in profile.windows if window.mode == AS_IS]
    read = _bytes_per_sample(windows)
    if profile.doubt(FROM_STORAGE) is None or not read:
        return profile
    later = [_bytes_per_sample(each.windows) for each in outcomes if isinstance(each, Measurement)]
    if not any(each is not None and each < FROM_STORAGE_SHARE * read for each in later):
        return profile
    doubt = Doubt(
        name=FROM_MEMORY,
        evidence=f"The profile read {_speed(windows)} from storage, and of the runs that were "
        "timed after it some or all read less than half of that for a sample: the rest lay in "
        "memory. Where the data do not fit there, what settings gain was not measured.",
    )
    doubts = (doubt if each.name == FROM_STORAGE else each for each in profile.doubts)
    return replace(profile, doubts=tuple(doubts))


def _bytes_per_second(windows: Sequence[Window]) -> float | None:
    seconds = sum(window.seconds + window.validation_seconds for window in windows)
    read = _bytes(windows)
    return None if read is None or not seconds else read / seconds


def _bytes_per_sample(windows: Sequence[Window]) -> float | None:
    samples, read = sum(window.samples for window in windows), _bytes(windows)
    return None if read is None or not samples else read / samples


def _bytes(windows: Sequence[Window]) -> int | None:
    read = [window.read_bytes for window in windows]
    return None if None in read else sum(filter(None, read))


def _speed(windows: Sequence[Window]) -> str:
    megabytes = (_bytes_per_second(windows) or 0.0) / 1e6
    return f"{megabytes:,.0f} MB/s" if megabytes >= 10 else f"{megabytes:.1f} MB/s"

import pytest

from autotune.errors import UsageError
from autotune.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("8G", 8 << 30), ("8GiB", 8 << 30), ("512m", 512 << 20), ("1.5 GB", 3 << 29), (4096, 4096)],
)
def test_sizes_of_memory_are_read_as_people_write_them(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "8X", "-1G", 0])
def test_what_is_no_size_is_refused(text: str | int) -> None:
    with pytest.raises(UsageError, match="size of memory"):
        parse_size(text)

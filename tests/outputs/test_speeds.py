from dataclasses import replace

from autotune.outputs.speeds import handed_back
from tests import builders


def test_a_patch_that_was_withdrawn_was_not_handed_back() -> None:
    result = builders.search_result()
    assert result.verdict is not None and result.verdict.delivered is not None
    delivered = handed_back(result)
    withdrawn = handed_back(replace(result, patch=""))
    assert delivered is not None and withdrawn is not None
    assert delivered[0] == result.verdict.delivered.samples_per_second
    assert withdrawn[0] == result.verdict.tuned_samples_per_second
    assert delivered[0] != withdrawn[0]

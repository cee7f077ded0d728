"""How well the search of tools finds what is meant.

Is: a floor under the quality, in each language, and the proof that plain searches are below it.
Is not: the rules of the ranking (`test_tool_search.py`).
Above: nothing. Below: `tests/search`.
"""

import pytest

from tests.search.figures import figures, finders
from tests.search.labelled import labelled_queries, labelled_tools

LANGUAGES = ("en", "zh", "ja")
FLOOR = 0.95


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_meant_is_among_the_first_three(language: str) -> None:
    """In English, Chinese and Japanese, and above both plain searches in rank too."""
    ours, *baselines = (figures(finder)[language] for finder in finders().values())
    assert ours.hit_at_3 >= FLOOR
    for baseline in baselines:
        assert baseline.hit_at_3 < ours.hit_at_3
        assert baseline.mrr < ours.mrr


def test_the_labelled_set_is_whole() -> None:
    """At least 150 queries, each once, whose tools exist; every language has its share."""
    names = [tool.name for tool in labelled_tools()]
    queries = labelled_queries()
    assert len(set(names)) == len(names)
    assert len({query.text for query in queries}) == len(queries) >= 150
    assert all(query.wanted <= set(names) for query in queries)
    assert all(sum(query.language == language for query in queries) >= 35 for language in LANGUAGES)

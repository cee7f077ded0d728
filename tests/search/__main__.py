"""Print how well tools are found: `python -m tests.search`.

Is: the table of search quality and the queries we miss. Is not: a test.
Above: nothing. Below: `figures.py`.
"""

from tests.search.figures import figures, finders, misses

for name, finder in finders().items():
    for language, found in figures(finder).items():
        print(
            f"{name:15} {language}  {found.queries:4} queries  "
            f"hit@3 {found.hit_at_3:.3f}  MRR {found.mrr:.3f}"
        )
for query in misses(finders()["toolrail"]):
    print(f"missed ({query.language}): {query.text} -> {', '.join(sorted(query.wanted))}")

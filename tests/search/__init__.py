"""Labelled queries over tools of public MCP servers, and what finds them.

Is: the set (`tools.tsv`: name, parameters, description; `queries.tsv`: language, query, the tools
it means), two baselines and the figures. Is not: a fact about queries of real models: names of
tools are those their servers document, descriptions and queries were written for this set.
Above: `tests/unit/test_search_quality.py`; `python -m tests.search` prints the table.
"""

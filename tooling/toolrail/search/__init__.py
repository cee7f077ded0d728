"""Find the tools a query means, among any number of them (semantics 4.8).

Is: text to terms, a weighted index, the forms of a query, a ranking that is the same everywhere.
Is not: who may see a tool, or what loads: the caller gives the tools and loads the hits.
Above: `toolrail search`, the tool `tool_search`. Below: `toolrail_schemas`.

    terms.py      text to terms, any script
    lexicon.py    words of Chinese and Japanese queries in English
    document.py   what of a tool is searched, and how much each part weighs
    query.py      the forms of a query
    index.py      BM25F over the parts of tools
    ranking.py    a query against an index
"""

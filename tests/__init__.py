"""The tests of Toolrail.

Is: a package, so that tests import their helpers as `tests.waiting`. Is not: installed.
Above: pytest. Below: everything.
"""

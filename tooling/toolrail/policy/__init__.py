"""Decide which tool calls may happen, and say why.

Is: authorisation; visible, callable, approval and budget of one tool for one caller. Policy is
data: layers of rules in TOML, frozen per run, resolved by one pure function. Is not: whether a
tool exists (catalog), whether its schema is in the prompt (context), what its arguments may be
(execution). Their answers are facts here.
Above: dispatcher, gateway, CLI. Below: `toolrail_schemas`.

    selectors.py  which tools a rule speaks about
    rules.py      one statement of a layer, with examples
    layers.py     what each layer may say
    verdicts.py   what one layer says about one tool; remembered
    inputs.py     what the resolver is asked
    findings.py   every voice for and against, in order
    budget.py     the smallest caps, and whose they are
    resolve.py    the decision
    stricter.py   one decision of two policies that hold together
    explain.py    the decision with everything that lost
    snapshot.py   the policy of one run, frozen and hashed
    load.py       a folder of TOML files, read strictly
    defaults/     the folder used when the operator has none
"""

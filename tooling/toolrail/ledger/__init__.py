"""Hold the truth of runs and calls in Redis.

Is: the package of records, scripts and readers. Is not: decisions. Above: dispatcher, worker,
reaper, client. Below: `redis_io`, `keys`, the schemas.
"""

from toolrail.ledger.conflicts import Stands, conflict
from toolrail.ledger.journal import JournalReader
from toolrail.ledger.ledger import Ledger
from toolrail.ledger.reader import START, Due, LedgerReader, unaccounted
from toolrail.ledger.records import (
    ANY_UNKNOWN,
    CLAIM_FIELDS,
    Approval,
    Claim,
    Closed,
    Dispatched,
    EditedArguments,
    Ending,
    EventLine,
    Held,
    NewCall,
    Outcome,
    Refusal,
    Renewal,
    RunEnd,
    StoredCall,
)

__all__ = [
    "ANY_UNKNOWN",
    "CLAIM_FIELDS",
    "START",
    "Approval",
    "Claim",
    "Closed",
    "Dispatched",
    "Due",
    "EditedArguments",
    "Ending",
    "EventLine",
    "Held",
    "JournalReader",
    "Ledger",
    "LedgerReader",
    "NewCall",
    "Outcome",
    "Refusal",
    "Renewal",
    "RunEnd",
    "Stands",
    "StoredCall",
    "conflict",
    "unaccounted",
]

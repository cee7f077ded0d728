"""Read a granted claim as the call that an executor is given.

Is: record fields to `ClaimedCall`, and the arguments from wherever they are. Is not: the claim
itself (`execute.py`). Above: `execute.py`. Below: the ledger's records, blobs.
"""

from typing import cast

import orjson

from toolrail.blobs import Blobs
from toolrail.ledger import Claim
from toolrail_schemas import Caller, JsonObject, Source
from toolrail_workers.executor import ClaimedCall


async def load_arguments(claim: Claim, blobs: Blobs) -> JsonObject:
    """Return the call's arguments, which the dispatcher has checked.

    Raises:
        BlobMissing: They outlived their blob.
    """
    inline = claim.fields["args"]
    data = inline.encode() if inline else await blobs.get(claim.fields["args_blob"])
    return cast("JsonObject", orjson.loads(data))


def claimed_call(claim: Claim, arguments: JsonObject) -> ClaimedCall:
    """Return the call for its executor."""
    fields = claim.fields
    return ClaimedCall(
        run_id=claim.run_id,
        call_key=claim.call_key,
        call_id=fields["call_id"],
        tool=fields["tool"],
        source=Source(fields["source"]),
        spec_hash=fields["spec_hash"],
        arguments=arguments,
        attempt=int(fields["attempt"]),
        fence=claim.fence,
        caller=Caller(fields["caller"]),
        tenant=fields["tenant"],
        profile=fields["profile"],
        turn=int(fields["turn"]),
        timeout_s=int(fields["timeout_ms"]) / 1000,
        max_output_bytes=int(fields["max_output_bytes"]),
        max_output_tokens=int(fields["max_output_tokens"]),
        policy_hash=fields["policy_hash"],
        client=fields["client"],
        edited=fields["edited"],
    )

"""Say who may decide about parked calls, and how long they have.

Is: the table `[approvals]` of the platform layer and the one check of a name against it. Is not:
proof that somebody is who they say: a name is the word of whoever can write to Redis, and only the
gateway's identities are more.
Above: approvals, `layers.py`. Below: `rules.py`, the schemas.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Final

from pydantic import Field, StrictBool, field_validator

from toolrail.policy.rules import PolicyModel
from toolrail.policy.selectors import PolicyTextError
from toolrail_schemas import Source

EXPIRY_MIN_S: Final = 10
EXPIRY_MAX_S: Final = 86_400
"""Source: semantics 6."""

Person = Annotated[str, Field(min_length=1, max_length=200)]
ExpirySeconds = Annotated[int, Field(strict=True, ge=EXPIRY_MIN_S, le=EXPIRY_MAX_S)]


class ApprovalRules(PolicyModel):
    """Who decides, and for how long they are asked. Frozen with the run, as all policy is."""

    approvers: Annotated[tuple[Person, ...], Field(max_length=1000)] | None = None
    """Names, `*` for any part of one. None: anybody who can reach the cell; empty: nobody."""
    own_runs: StrictBool = True
    """Whether a person may decide about calls of runs that are theirs (`user` of the run)."""
    expires_s: Mapping[Source, ExpirySeconds] = Field(default={})
    """How long a question stands, per source. Others take TOOLRAIL_APPROVAL_EXPIRY_S."""

    @field_validator("approvers")
    @classmethod
    def _plain(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for index, name in enumerate(names or ()):
            if not name.isprintable() or set("?[]") & set(name):
                raise PolicyTextError(
                    f"{name!r} is no name of a person",
                    'Write a name with nothing but "*" as a wildcard, such as "*@example.com".',
                    key=("approvers", index),
                )
        return None if names is None else tuple(sorted(set(names)))

    def why_not(self, by: str, *, run_user: str | None) -> str | None:
        """Return why this person may not decide, in a sentence; None when they may.

        Args:
            by: Who decides.
            run_user: Whose run it is, when somebody's.
        """
        if self.approvers is not None and not any(fnmatchcase(by, name) for name in self.approvers):
            return (
                f"{by} may not decide: the policy of this run lists other approvers "
                "(platform.toml, approvals.approvers). Ask one of them."
            )
        if not self.own_runs and run_user is not None and by == run_user:
            return (
                f"{by} may not decide about a run of their own (platform.toml, "
                "approvals.own_runs). Ask somebody else."
            )
        return None

"""Every error code says what happened and what to do next.

Is: the table of semantics 7, copied here as rows, and the mapping of 3.8(9). Is not: exceptions.
Above: nothing. Below: `toolrail_schemas.errors`.
"""

import re

import pytest

from toolrail_schemas import ERROR_CODES, ErrorClass, ReasonCode, error_info, error_of_reason

# Row of semantics 7, class, codes. Rows 1, 38 and 42 are no errors of a call.
TABLE: list[tuple[int, str, str]] = [
    (2, "recoverable", "patch.context_mismatch"),
    (3, "recoverable", "patch.ambiguous"),
    (4, "recoverable", "patch.malformed"),
    (4, "recoverable", "patch.truncated"),
    (5, "recoverable", "patch.target_exists"),
    (6, "system", "workspace.path_escape"),
    (8, "recoverable", "workspace.symlink_refused"),
    (9, "recoverable", "workspace.invalid_path"),
    (10, "recoverable", "workspace.file_not_found"),
    (11, "recoverable", "workspace.path_not_visible"),
    (11, "recoverable", "workspace.path_not_writable"),
    (12, "recoverable", "workspace.stale_file"),
    (13, "recoverable", "workspace.not_text"),
    (14, "recoverable", "workspace.read_too_large"),
    (15, "system", "workspace.io_failed"),
    (16, "system", "workspace.rollback_failed"),
    (17, "system", "checkpoint.create_failed"),
    (18, "recoverable", "workspace.manifest_incomplete"),
    (19, "recoverable", "tool.not_found"),
    (20, "policy_denied", "policy.not_allowed"),
    (21, "policy_denied", "policy.denied"),
    (22, "policy_denied", "policy.caller_denied"),
    (23, "policy_denied", "approval.denied"),
    (24, "policy_denied", "approval.expired"),
    (25, "policy_denied", "policy.plan_violation"),
    (26, "recoverable", "tool.not_loaded"),
    (27, "recoverable", "tool.budget_exhausted"),
    (28, "recoverable", "tool.turn_budget_exhausted"),
    (29, "system", "run.drift_limit"),
    (30, "recoverable", "tool.invalid_arguments"),
    (31, "recoverable", "tool.argument_restricted"),
    (32, "recoverable", "tool.timeout"),
    (33, "recoverable", "tool.outcome_unknown"),
    (34, "recoverable", "tool.worker_lost"),
    (35, "recoverable", "tool.cancelled"),
    (36, "recoverable", "mcp.server_unavailable"),
    (37, "recoverable", "mcp.protocol_error"),
    (37, "recoverable", "tool.mcp_error"),
    (39, "recoverable", "extension.unavailable"),
    (40, "recoverable", "tool.invalid_output"),
    (40, "recoverable", "tool.output_too_large"),
    (41, "policy_denied", "extension.forbidden_effect"),
    (44, "system", "journal.append_failed"),
    (45, "system", "store.result_write_failed"),
    (46, "system", "dispatch.publish_failed"),
    (47, "system", "model.tool_call_id_missing"),
    (48, "system", "model.native_metadata_lost"),
    (49, "system", "tool.internal_error"),
    (51, "recoverable", "chat.invalid_cursor"),
    (51, "recoverable", "chat.stale_cursor"),
    (52, "recoverable", "skill.read_budget_exhausted"),
    (53, "recoverable", "worldinfo.activation_unavailable"),
    (53, "system", "worldinfo.snapshot_invalid"),
]
RUNTIME = [
    "tool.spec_changed",
    "tool.cancelled",
    "tool.after_finish",
    "workspace.calls_pending",
    "workspace.already_exists",
    "workspace.write_requires_read",
    "workspace.mixed_read_range",
    "workspace.invalid_range",
    "workspace.path_is_directory",
    "workspace.not_a_directory",
    "workspace.not_regular_file",
    "run.not_found",
    "run.closed",
    "run.abandoned",
    "dispatch.conflict",
    "tool.dead_lettered",
    "redis.unavailable",
    "policy.unknown_profile",
    "mcp.server_unavailable",
    "extension.overloaded",
    "tool.execution_failed",
    "tool.internal_error",
]
# Semantics 2.7: these fail the run.
FATAL = [
    "journal.append_failed",
    "journal.conflict",
    "journal.gap",
    "store.result_write_failed",
    "workspace.path_escape",
    "workspace.rollback_failed",
    "checkpoint.create_failed",
    "model.tool_call_id_missing",
    "model.duplicate_tool_call_id",
    "model.native_metadata_lost",
    "dispatch.publish_failed",
    "policy.snapshot_corrupt",
    "registry.alias_corrupt",
]


@pytest.mark.parametrize(("row", "error_class", "code"), TABLE)
def test_a_code_has_the_class_of_its_row(row: int, error_class: str, code: str) -> None:
    """The class decides whether the run goes on."""
    info = ERROR_CODES[code]

    assert (info.row, info.error_class.value) == (row, error_class)


def test_only_codes_of_the_table_claim_a_row() -> None:
    """Both directions."""
    assert {info.code for info in ERROR_CODES.values() if info.row} == {c for _, _, c in TABLE}


@pytest.mark.parametrize("code", RUNTIME)
def test_the_runtime_has_codes_of_its_own(code: str) -> None:
    """Beyond the table."""
    assert code in ERROR_CODES


@pytest.mark.parametrize("code", FATAL)
def test_what_fails_the_run_is_a_system_error(code: str) -> None:
    """Semantics 2.7."""
    assert ERROR_CODES[code].error_class is ErrorClass.SYSTEM


@pytest.mark.parametrize("code", ERROR_CODES)
def test_a_code_says_what_happened_and_what_to_do(code: str) -> None:
    """In whole sentences, without a path of the host, within the 2000 characters for a model."""
    info = ERROR_CODES[code]

    assert info.code == code
    assert re.fullmatch(r"[a-z]+(\.[a-z0-9_]+)+", code)
    for words in (info.sentence, info.remedy):
        assert re.fullmatch(r"[A-Z].{8,200}\.", words)
        assert not re.search(r"/(?:home|tmp|usr|var)/|Traceback", words)


def test_a_tools_own_code_is_recoverable() -> None:
    """Third-party failures do not kill a run."""
    info = error_info("shop.closed")

    assert info.code == "shop.closed"
    assert info.error_class is ErrorClass.RECOVERABLE
    assert info.sentence
    assert info.remedy


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("deny", "policy.denied"),
        ("platform.not_listed", "policy.denied"),
        ("plan.unlisted", "policy.plan_violation"),
        ("context.caller", "policy.caller_denied"),
        ("policy.not_allowed", "policy.not_allowed"),
        ("catalog.surface", "policy.not_allowed"),
        ("catalog.deprecated", "policy.not_allowed"),
        ("not_model_visible", "policy.not_allowed"),
        ("user_only", "policy.not_allowed"),
        ("budget.exhausted", "tool.budget_exhausted"),
        ("source.unavailable", "mcp.server_unavailable"),
        ("tool.not_loaded", "tool.not_loaded"),
    ],
)
def test_a_reason_ends_a_call_with_one_code(reason: str, code: str) -> None:
    """The one table of semantics 3.8(9)."""
    assert error_of_reason(reason).code == code


def test_every_reason_but_allowed_has_a_code() -> None:
    """So that a new reason cannot be forgotten."""
    for reason in set(ReasonCode) - {ReasonCode.ALLOWED}:
        assert error_of_reason(reason)
    with pytest.raises(KeyError):
        error_of_reason(ReasonCode.ALLOWED)


def test_a_hidden_tool_reads_like_one_that_does_not_exist() -> None:
    """Nobody can probe for what the policy hides."""
    hidden, missing = ERROR_CODES["policy.not_allowed"], ERROR_CODES["tool.not_found"]

    assert (hidden.sentence, hidden.remedy) == (missing.sentence, missing.remedy)

"""Effects are believed only from those who may be believed.

Is: the four rules of semantics 1.2 and the default permission. Is not: the resolver.
Above: nothing. Below: `toolrail_schemas.annotations`.
"""

import itertools

import pytest
from pydantic import ValidationError

from toolrail_schemas import (
    Annotations,
    Cost,
    HintedAnnotations,
    Permission,
    Rollback,
    SideEffect,
    Source,
    default_permission,
)

BOOLS = (None, True, False)


def test_a_missing_hint_is_the_worst_case() -> None:
    """Rule a, the defaults of MCP."""
    worst = Annotations.worst_case(trusted=True)

    assert not worst.read_only
    assert worst.destructive
    assert not worst.idempotent
    assert worst.open_world
    assert worst.side_effect is SideEffect.EXTERNAL
    assert worst.rollback is Rollback.NONE
    assert not worst.cancellable
    assert not worst.retry_safe


def test_contradicting_hints_count_as_destructive() -> None:
    """Rule b: the safe one of two readings."""
    hints = HintedAnnotations(read_only=True, destructive=True)

    both = Annotations.worst_case(hints, trusted=True)

    assert hints.contradicts_itself
    assert (both.read_only, both.destructive) == (False, True)
    assert both.side_effect is SideEffect.EXTERNAL
    assert Annotations.for_builtin(read_only=True, destructive=True).destructive


def test_a_reading_tool_that_says_no_more_is_not_destructive() -> None:
    """Only two declared hints can contradict."""
    reads = Annotations.worst_case(HintedAnnotations(read_only=True), trusted=True)

    assert not reads.destructive
    assert reads.retry_safe


@pytest.mark.parametrize("cancellable", BOOLS)
@pytest.mark.parametrize("cost", [None, *Cost])
def test_untrusted_hints_only_tighten(cancellable: bool | None, cost: Cost | None) -> None:
    """Rule c, over every combination of hints."""
    for read_only, destructive, idempotent, open_world in itertools.product(BOOLS, repeat=4):
        hints = HintedAnnotations(
            read_only=read_only,
            destructive=destructive,
            idempotent=idempotent,
            open_world=open_world,
            cost=cost,
            cancellable=cancellable,
        )

        got = Annotations.worst_case(hints)

        assert got.model_copy(update={"cost": Cost.LOW, "cancellable": False}) == Annotations()
        assert got.cost is (Cost.HIGH if cost is Cost.HIGH else Cost.LOW)
        assert not got.retry_safe


@pytest.mark.parametrize(
    "loosening",
    [
        {"read_only": True},
        {"idempotent": True},
        {"destructive": False},
        {"open_world": False},
        {"side_effect": "none"},
        {"rollback": "checkpoint"},
        {"cost": "free"},
    ],
)
def test_untrusted_annotations_cannot_even_be_built_loose(loosening: dict[str, object]) -> None:
    """The message says how to build them."""
    with pytest.raises(ValidationError, match=r"worst_case|rollback"):
        Annotations.model_validate(loosening)


def test_reading_implies_no_effect_and_nothing_to_roll_back() -> None:
    """Rule d."""
    reads = Annotations.for_builtin(read_only=True)

    assert reads.side_effect is SideEffect.NONE
    assert reads.rollback is Rollback.NOT_NEEDED
    with pytest.raises(ValidationError):
        Annotations.for_builtin(read_only=True, side_effect=SideEffect.EXTERNAL)
    with pytest.raises(ValidationError):
        Annotations.for_builtin(read_only=True, rollback=Rollback.CHECKPOINT)


@pytest.mark.parametrize(
    ("open_world", "side_effect"), [(True, SideEffect.EXTERNAL), (False, SideEffect.WORKSPACE)]
)
def test_the_side_effect_follows_when_it_is_not_declared(
    open_world: bool, side_effect: SideEffect
) -> None:
    """open_world means external, else the workspace."""
    tool = Annotations.for_builtin(open_world=open_world, rollback=Rollback.NONE)

    assert tool.side_effect is side_effect


def test_a_mutating_tool_says_how_it_is_rolled_back() -> None:
    """Also on the wire; a control tool has nothing to roll back."""
    with pytest.raises(ValueError, match="rollback"):
        Annotations.for_builtin()
    with pytest.raises(ValidationError, match="rollback"):
        Annotations.for_builtin(rollback=Rollback.NOT_NEEDED)

    control = Annotations.for_builtin(side_effect=SideEffect.CONTROL)
    assert control.rollback is Rollback.NOT_NEEDED


def test_annotations_survive_the_wire() -> None:
    """What was derived is written out and read back as the same."""
    for annotations in (
        Annotations(),
        Annotations.for_builtin(read_only=True),
        Annotations.for_builtin(rollback=Rollback.CHECKPOINT, idempotent=True),
        Annotations.worst_case(HintedAnnotations(idempotent=True), trusted=True),
    ):
        assert Annotations.model_validate_json(annotations.model_dump_json()) == annotations


@pytest.mark.parametrize(
    ("annotations", "permission"),
    [
        (Annotations.for_builtin(read_only=True), Permission.ALWAYS_ALLOW),
        (Annotations.for_builtin(rollback=Rollback.CHECKPOINT), Permission.ALWAYS_ALLOW),
        (Annotations.for_builtin(side_effect=SideEffect.CONTROL), Permission.ALWAYS_ALLOW),
        (
            Annotations.for_builtin(rollback=Rollback.CHECKPOINT, destructive=True),
            Permission.APPROVAL_REQUIRED,
        ),
        (Annotations.for_builtin(rollback=Rollback.NONE), Permission.APPROVAL_REQUIRED),
        (
            Annotations.for_builtin(rollback=Rollback.CHECKPOINT, open_world=True),
            Permission.APPROVAL_REQUIRED,
        ),
        (Annotations.for_builtin(read_only=True, cost=Cost.HIGH), Permission.APPROVAL_REQUIRED),
    ],
)
def test_a_builtin_asks_when_its_effect_is_grave(
    annotations: Annotations, permission: Permission
) -> None:
    """Destructive, external, costly or not to be undone (semantics 1.1 and 6)."""
    assert default_permission(Source.BUILTIN, annotations) is permission


def test_third_parties_always_ask() -> None:
    """Trusted or not; policy may waive it."""
    reads = Annotations.worst_case(HintedAnnotations(read_only=True), trusted=True)

    assert default_permission(Source.MCP, reads) is Permission.APPROVAL_REQUIRED
    assert default_permission(Source.EXTENSION, Annotations()) is Permission.APPROVAL_REQUIRED
    assert default_permission(Source.SKILL, reads) is Permission.ALWAYS_ALLOW

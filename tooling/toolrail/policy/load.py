"""Read a policy folder, strictly.

Is: the folder's shape, TOML, and one error for everything that could not be meant; what is not
understood is never skipped. Is not: the checks of one layer (`layers.py`) or their wording
(`complaints.py`).
Above: dispatcher, gateway, `toolrail policy`. Below: `layers.py`, `examples.py`, `snapshot.py`.

    platform.toml        rules of the operator; optional
    source.toml          defaults for each source of tools; optional
    profiles/<name>.toml what one kind of agent may use
    users/<name>.toml    settings of one person
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from toolrail.errors import ConfigError, UnknownProfile
from toolrail.policy.complaints import Text, complaints, own_complaint
from toolrail.policy.examples import failed_examples
from toolrail.policy.layers import (
    Layers,
    PlanLayer,
    PlatformLayer,
    ProfileLayer,
    SourceLayer,
    UserLayer,
    WrittenLayer,
)
from toolrail.policy.rules import LayerLabel
from toolrail.policy.selectors import did_you_mean
from toolrail.policy.snapshot import PolicySnapshot
from toolrail.policy.verdicts import CompiledLayer, CompiledLayers
from toolrail_schemas import JsonObject

FILES: Final = ("platform.toml", "source.toml")
FOLDERS: Final = ("profiles", "users")
SNAPSHOTS_KEPT: Final = 1024

_LABEL: Final[TypeAdapter[str]] = TypeAdapter(LayerLabel)
_DECODE_ERROR: Final = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)")

L = TypeVar("L", bound=WrittenLayer)
_NOBODY: Final = UserLayer()
_NO_PLAN: Final = PlanLayer()


class PolicyFolder:
    """A policy folder that was read and found right. Immutable; read it again to see changes."""

    def __init__(
        self,
        *,
        where: str,
        platform: PlatformLayer,
        source: SourceLayer,
        profiles: Mapping[str, ProfileLayer],
        users: Mapping[str, UserLayer],
    ) -> None:
        self.where: Final = where
        self.platform: Final = platform
        self.source: Final = source
        self.profiles: Final = profiles
        self.users: Final = users
        self._compiled: dict[int, CompiledLayer] = {}
        self._snapshots: dict[tuple[str, str | None], PolicySnapshot] = {}

    def snapshot(
        self, *, profile: str, user: str | None = None, plan: PlanLayer | None = None
    ) -> PolicySnapshot:
        """Return the policy of a run, frozen.

        Args:
            profile: Name of a file under profiles/.
            user: Whose settings count; a user without a file has none.
            plan: The current plan node.

        Raises:
            UnknownProfile: There is no such profile.
        """
        owner = user if user in self.users else None
        known = self._snapshots.get((profile, owner))
        if known is None:
            known = self._freeze(profile, owner)
            if len(self._snapshots) >= SNAPSHOTS_KEPT:
                self._snapshots.clear()
            self._snapshots[(profile, owner)] = known
        return known if plan is None else known.with_plan(plan)

    def layers(self) -> Iterator[WrittenLayer]:
        """Yield every layer of the folder: platform, source, then profiles and users by name."""
        yield self.platform
        yield self.source
        for named in (self.profiles, self.users):
            for name in sorted(named):
                yield named[name]

    def _freeze(self, profile: str, owner: str | None) -> PolicySnapshot:
        if profile not in self.profiles:
            raise UnknownProfile(
                f"there is no profile {profile!r} in {self.where}.",
                fix=did_you_mean(profile, self.profiles),
            )
        user = _NOBODY if owner is None else self.users[owner]
        layers = Layers(
            platform=self.platform, source=self.source, profile=self.profiles[profile], user=user
        )
        compiled = CompiledLayers(
            platform=self._compile(self.platform),
            user=self._compile(user),
            plan=self._compile(_NO_PLAN),
            profile=self._compile(self.profiles[profile]),
            source=self._compile(self.source),
        )
        return PolicySnapshot(layers, compiled=compiled)

    def _compile(self, layer: WrittenLayer) -> CompiledLayer:
        """Compile each layer once: verdicts that are remembered serve every run of the process."""
        known = self._compiled.get(id(layer))
        if known is None:
            known = self._compiled[id(layer)] = CompiledLayer(layer)
        return known


def load_policy(folder: Path | None = None) -> PolicyFolder:
    """Return the policy of a folder, or the built-in one.

    Args:
        folder: `Settings.policy_dir`; None takes the defaults that come with Toolrail.

    Raises:
        ConfigError: Something in the folder cannot be meant; the first problem, and how many more.
    """
    loaded, problems = inspect_policy(folder)
    if loaded is not None:
        return loaded
    first, *rest = problems
    if rest:
        more = f"({len(rest)} more; `toolrail policy check` lists all.)"
        first = ConfigError(
            first.problem,
            fix=more if first.fix is None else f"{first.fix} {more}",
            file=first.file,
            line=first.line,
            key=first.key,
        )
    raise first


def inspect_policy(
    folder: Path | None = None,
) -> tuple[PolicyFolder | None, tuple[ConfigError, ...]]:
    """Return the policy of a folder, or everything that is wrong with it."""
    root = default_folder() if folder is None else folder
    reading = _Reading(root)
    loaded = reading.read()
    return (None if reading.problems else loaded), tuple(reading.problems)


def default_folder() -> Traversable:
    """Return the folder of the built-in policy."""
    return files("toolrail.policy") / "defaults"


def load_plan(data: JsonObject) -> PlanLayer:
    """Return the plan node that came with a run, checked like a file.

    Raises:
        ConfigError: It cannot be meant; `key` starts with `plan`.
    """
    text = Text(file=None, source="", data=data, prefix="plan")
    layer, problems = _check(text, PlanLayer, data)
    if layer is None:
        raise problems[0]
    return layer


class _Reading:
    """One pass over a folder, which goes on after a problem to find the others."""

    def __init__(self, root: Traversable) -> None:
        self.root = root
        self.problems: list[ConfigError] = []

    def read(self) -> PolicyFolder | None:
        if not self.root.is_dir():
            self.problems.append(
                ConfigError(
                    "there is no such folder.",
                    fix="Set TOOLRAIL_POLICY_DIR to a folder with platform.toml, source.toml, "
                    "profiles/ and users/, or unset it for the built-in policy.",
                    file=str(self.root),
                )
            )
            return None
        self._refuse_strangers()
        return PolicyFolder(
            where=str(self.root),
            platform=self._file(self.root / "platform.toml", PlatformLayer) or PlatformLayer(),
            source=self._file(self.root / "source.toml", SourceLayer) or SourceLayer(),
            profiles=self._named("profiles", ProfileLayer),
            users=self._named("users", UserLayer),
        )

    def _refuse_strangers(self) -> None:
        """A misspelled file name must not switch a layer off."""
        for entry in _listed(self.root):
            known = (*FILES, *(f"{folder}/" for folder in FOLDERS))
            spelled = f"{entry.name}/" if entry.is_dir() else entry.name
            if spelled not in known and (entry.is_dir() or spelled.endswith(".toml")):
                self.problems.append(
                    ConfigError(
                        "is not a part of a policy folder.",
                        fix=did_you_mean(spelled, known),
                        file=str(entry),
                    )
                )

    def _named(self, folder: str, model: type[L]) -> dict[str, L]:
        found: dict[str, L] = {}
        root = self.root / folder
        for entry in _listed(root) if root.is_dir() else ():
            name = entry.name.removesuffix(".toml")
            if entry.name.startswith(".") or entry.name.endswith(".md"):
                continue
            if name == entry.name or not entry.is_file():
                # A layer that is not read would silently deny nothing.
                self.problems.append(
                    ConfigError(
                        "is not a policy file.",
                        fix=f"Only files named {folder}/NAME.toml are read; rename or remove it.",
                        file=str(entry),
                    )
                )
                continue
            if not _is_label(name):
                self.problems.append(
                    ConfigError(
                        f"{name!r} cannot be the name of a layer.",
                        fix="Use letters, digits and _ . @ - in the name of the file.",
                        file=str(entry),
                    )
                )
                continue
            layer = self._file(entry, model, name=name)
            if layer is not None:
                found[name] = layer
        return found

    def _file(self, entry: Traversable, model: type[L], *, name: str | None = None) -> L | None:
        if not entry.is_file():
            return None
        try:
            source = entry.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            self.problems.append(
                ConfigError("is not UTF-8.", fix="Save it as UTF-8.", file=str(entry))
            )
            return None
        try:
            data: dict[str, JsonValue] = tomllib.loads(source)
        except tomllib.TOMLDecodeError as error:
            self.problems.append(_syntax_problem(entry, source, error))
            return None
        text = Text(file=str(entry), source=source, data=data)
        if "name" in data:
            self.problems.append(
                text.error("unknown key", fix="The name is the file's name.", key=("name",))
            )
            return None
        layer, problems = _check(text, model, data if name is None else {**data, "name": name})
        self.problems += problems
        return layer


def _check(
    text: Text, model: type[L], data: Mapping[str, JsonValue]
) -> tuple[L | None, list[ConfigError]]:
    try:
        layer = model.model_validate(data)
    except ValidationError as error:
        return None, complaints(text, model, error)
    problems = [own_complaint(text, problem) for problem in failed_examples(layer)]
    return (None if problems else layer), problems


def _syntax_problem(entry: Traversable, source: str, error: ValueError) -> ConfigError:
    told = _DECODE_ERROR.fullmatch(str(error))
    problem = str(error) if told is None else told[1]
    line = None if told is None else int(told[2] or max(1, source.count("\n")))
    fix = "Correct the syntax of this line, or of the one before it."
    return ConfigError(f"is not TOML: {problem}.", fix=fix, file=str(entry), line=line)


def _listed(folder: Traversable) -> list[Traversable]:
    """Return the visible entries by name; container platforms mount hidden links beside them."""
    entries = (entry for entry in folder.iterdir() if not entry.name.startswith((".", "__")))
    return sorted(entries, key=lambda entry: entry.name)


def _is_label(name: str) -> bool:
    try:
        _LABEL.validate_python(name)
    except ValidationError:
        return False
    return True

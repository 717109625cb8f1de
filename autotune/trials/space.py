"""What is worth searching: each knob's values on this machine and program, or the reason why it is
left out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotune.knobs import KNOBS, check, read_all
from autotune.knobs.knob import Choices, Config, Knob, Semantics, Skip, Value
from autotune.profiling.profile import Doubt, Profile

_ORDER = tuple(Semantics)
NUM_WORKERS = "num_workers"
BY_TEXT = "(so the source reads; it was not tried)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedKnob:
    """A knob that was left out of the search, and why; `refused` says that it was seen to change
    the training or to fail, or would do so by the source.
    """

    knob: str
    reason: str
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What is searched: the values of each knob, the program's own values, and what was left out
    and why; `closed` are knobs whose values are not for a profile to say: the user's word, what is
    impossible or not allowed, what was refused. What is `along` goes with all that is tried.
    """

    choices: Mapping[str, tuple[Value, ...]]
    own: Mapping[str, Value]
    skipped: tuple[SkippedKnob, ...]
    fixed: Mapping[str, Value] = field(default_factory=dict)
    doubts: Mapping[str, Doubt] = field(default_factory=dict)  # by knob: what was not found out
    closed: tuple[str, ...] = ()
    along: Config = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Configurations in it, the program's own among them."""
        size = 1
        for values in self.choices.values():
            size *= len(values)
        return size

    def narrowed(
        self, name: str, values: Sequence[Value], reason: str = "", doubt: Doubt | None = None
    ) -> "Space":
        """The space with only `values` of a knob, for a `reason`, and a `doubt` about those left.

        A knob of which nothing but the program's own value is left is left out, and with it those
        that mean nothing then.
        """
        doubts = {**self.doubts, **({name: doubt} if doubt else {})}
        if not reason:
            return replace(self, doubts=doubts)
        left = [value for value in values if value != self.own[name]]
        if left:
            reason += f"; what is left to try is {', '.join(str(value) for value in left)}"
            choices = {**self.choices, name: tuple(values)}
            skipped = (*self.skipped, SkippedKnob(knob=name, reason=reason, refused=True))
            closed = (*self.closed, name)
            return replace(self, choices=choices, skipped=skipped, doubts=doubts, closed=closed)
        return self._without(name, reason)

    def narrowed_by_text(self, name: str, values: Sequence[Value], reason: str) -> "Space":
        """`narrowed` for a `reason` that the source's text alone has given, which is then said."""
        return self.narrowed(name, values, reason and f"{reason} {BY_TEXT}")

    def _without(self, name: str, reason: str) -> "Space":
        whole = {**self.fixed, **self.own}
        idle = {
            knob.name: f"it means nothing while {name} is {whole[name]}"
            for knob in KNOBS
            if knob.name in self.choices
            and not knob.active(whole)
            and any(knob.active({**whole, name: value}) for value in self.choices[name])
        }
        gone = {name: reason, **idle}
        return replace(
            self,
            choices={each: values for each, values in self.choices.items() if each not in gone},
            own={each: value for each, value in self.own.items() if each not in gone},
            skipped=(
                *_without_workers(self.skipped, whole if name == NUM_WORKERS else {}, self.closed),
                *(
                    SkippedKnob(knob=each, reason=why, refused=each == name)
                    for each, why in gone.items()
                ),
            ),
            fixed={**self.fixed, **{each: whole[each] for each in gone}},
            closed=(*self.closed, *gone),
        )

    def widened(self, tried: Iterable[Config]) -> "Space":
        """The space with what searches of the same program have tried beside: of what a profile
        promises anything differs from one to the next. Of a knob that has values here, only other
        numbers come to it: its names are left out where they are impossible.
        """
        more: dict[str, dict[Value, None]] = {}
        whole = {**self.fixed, **self.own}
        for config in tried:
            for name, value in config.items():
                known = self.choices.get(name, ())
                is_name = bool(known) and not isinstance(value, int)
                if name in whole and not (name in self.closed or value in known or is_name):
                    more.setdefault(name, {})[value] = None
        if not more:
            return self
        names = [knob.name for knob in KNOBS if knob.name in {*self.choices, *more}]
        return replace(
            self,
            choices={
                name: (*self.choices.get(name, (whole[name],)), *more.get(name, ()))
                for name in names
            },
            own={name: whole[name] for name in names},
            skipped=tuple(each for each in self.skipped if each.knob not in more),
            fixed={name: value for name, value in whole.items() if name not in names},
        )

    def admits(self, config: Config) -> bool:
        """Whether all of `config` is among what may be tried: an earlier search may have been
        allowed more.
        """
        return all(value in self.choices.get(name, ()) for name, value in config.items())

    def difference(self, chosen: Config) -> dict[str, Value]:
        """What of `chosen` differs from the program's own and means something beside the rest."""
        own = {**self.fixed, **self.own}
        whole = {**own, **chosen}
        along = {n: value for n, value in self.along.items() if value in self.choices.get(n, ())}
        if any(whole[name] != own[name] for name in chosen.keys() - along.keys()):
            whole |= along
        return {
            knob.name: whole[knob.name]
            for knob in KNOBS
            if knob.name in self.choices
            and whole[knob.name] != self.own[knob.name]
            and knob.active(whole)
            and all(whole[name] == own[name] for name in knob.only_beside_own & own.keys())
        }


def build_space(
    profile: Profile,
    *,
    allow: Semantics = Semantics.EQUIVALENT,
    given: Mapping[str, tuple[Value, ...] | None] | None = None,
) -> Space:
    """The space of `profile`, of knobs that change no more about the training than `allow`; with
    the user's word on a knob last: `given` values instead of its domain's, None to leave it out.
    """
    given = given or {}
    choices: dict[str, tuple[Value, ...]] = {}
    own: dict[str, Value] = {}
    skipped: list[SkippedKnob] = []
    closed = set(given)
    for knob in KNOBS:
        domain = _domain(knob, profile, allow, given)
        if isinstance(domain, Skip):
            closed |= {knob.name} if domain.impossible or not _is_allowed(knob, allow) else set()
            skipped.append(SkippedKnob(knob=knob.name, reason=domain.reason))
        else:
            choices[knob.name], own[knob.name] = domain.values, domain.own
    for name in _idle(choices, read_all(profile.seen)):
        del choices[name], own[name]
        skipped.append(
            SkippedKnob(knob=name, reason="nothing that is left to try has a use for it")
        )
    fixed = {name: value for name, value in read_all(profile.seen).items() if name not in own}
    searched = {name for name, values in given.items() if values is not None}
    return Space(
        choices=choices,
        own=own,
        skipped=_without_workers(skipped, fixed if profile.seen.loader else {}, closed - searched),
        fixed=fixed,
        closed=tuple(sorted(closed)),
        along={
            knob.name: next(value for value in choices[knob.name] if value != own[knob.name])
            for knob in KNOBS
            if len(choices.get(knob.name, ())) > 1 and knob.goes_along(profile)
        },
    )


def _idle(choices: Mapping[str, Sequence[Value]], own: Config) -> list[str]:
    """The knobs among `choices` that none of the others' values makes mean anything."""
    return [
        knob.name
        for knob in KNOBS
        if knob.name in choices
        and not knob.active(own)
        and not any(
            knob.active({**own, name: value})
            for name, values in choices.items()
            for value in values
        )
    ]


def _without_workers(
    skipped: Iterable[SkippedKnob], fixed: Config, closed: Collection[str]
) -> tuple[SkippedKnob, ...]:
    """`skipped`, where a loader has no workers by what is `fixed`, with no other reason for what
    means nothing then, and is not `closed` all the same: it would tell of workers that there are
    none of.
    """
    if fixed.get(NUM_WORKERS) != 0:
        return tuple(skipped)
    idle = {
        knob.name
        for knob in KNOBS
        if not knob.active({NUM_WORKERS: 0}) and knob.active({NUM_WORKERS: 1})
    }
    return tuple(
        replace(each, reason=f"it means nothing while {NUM_WORKERS} is 0")
        if each.knob in idle and each.knob not in closed and not each.refused
        else each
        for each in skipped
    )


def _domain(
    knob: Knob, profile: Profile, allow: Semantics, given: Mapping[str, tuple[Value, ...] | None]
) -> Choices | Skip:
    if knob.name in given and given[knob.name] is None:
        return Skip(reason="switched off by the user")
    domain = knob.domain(profile)
    if not _is_allowed(knob, allow) and not isinstance(domain, Skip):
        if knob.semantics is Semantics.DIFFERENT:
            return Skip(reason="it gives another training: only --allow different has it tried")
        return Skip(reason=f"it is {knob.semantics}, and only {allow} changes were allowed")
    wanted = given.get(knob.name)
    if wanted is None or (isinstance(domain, Skip) and domain.impossible):
        return domain
    for value in wanted:
        check(knob, value)
    own = knob.read(profile.seen)
    return Choices(own=own, values=tuple(dict.fromkeys((own, *wanted))))


def _is_allowed(knob: Knob, allow: Semantics) -> bool:
    return _ORDER.index(knob.semantics) <= _ORDER.index(allow)

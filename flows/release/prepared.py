"""The plan of a release, new or charged before, once all is refused that needs no row; and whether it is whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from equistrata.analysis.contents.card import ledger_of, read_card
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.account import Account, account_of, new_id, verify_with_cards
from equistrata.flows.release.binding import binding, check_same, settings_hash
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.series import month_of
from equistrata.flows.run.journal import Journal, state_folder, unreadable_sentence
from equistrata.privacy.ledger.ledger import Charge, LedgerError


class AlreadyMade(InputError):
    """The ledger has this release as whole; nothing was charged again."""

    exit_code = 0


def with_release_id(config: ReleaseConfig, unique: str | None = None) -> ReleaseConfig:
    """The configuration with an id if it is charged and has none: the output's name and something unique."""
    if config.dataset is None or config.release_id is not None:
        return config
    return config.changed(release_id=new_id(Path(config.output).name, unique))


_prepared: list[tuple[Plan, Account | None]] = []  # the last of this process that did not run yet: a plan is made once


def prepare(config: ReleaseConfig) -> tuple[Plan, Account | None]:
    """The plan, and the account if there is one, once all is refused that needs no row. Nothing is written or charged.

    A release of the same configuration that this process runs next has this plan. Raises InputError (AlreadyMade, if
    the release is whole), LedgerError, BudgetExceeded.
    """
    account = account_of(config)
    _prepared[:] = [(Plan.of(config) if account is None else _plan_of_charged(config, account), account)]
    return _prepared[0]


def prepared_plan(config: ReleaseConfig) -> tuple[Plan, Account | None]:
    """What `prepare` made of this configuration last, once; else it is made now."""
    (plan, account), *_ = [each for each in _prepared if each[0].config == config] or [prepare(config)]
    _prepared.clear()
    return plan, account


def _plan_of_charged(config: ReleaseConfig, account: Account) -> Plan:
    verify_with_cards(account.ledger, Path(config.output).absolute().parent)
    opened = account.ledger.account(account.dataset)  # raises if there is no such data set
    charges, found = account.charges(), Journal.of(account.release)
    check_standing(config, account, charges, found)
    try:
        month = month_of(config, account, is_published(config))
        budget = opened.epsilon or 0.0, opened.delta or 0.0
        plan = Plan.of(config, begun=bool(charges), account=budget, month=month)
    except InputError as error:
        if not charges or is_published(config):
            raise
        raise InputError(
            f"release {account.release!r} was charged, and what it needs is not as it was: {error}; or give the "
            f"release up (equistrata resume --discard {account.release})"
        ) from None
    if not charges:
        check_none_waits(config, account)
        promises = f" (its synthesizer {plan.mechanism.name} promises (ε, δ) only, which costs ρ = ε²/2)"
        account.check_price(plan.price.total, plan.relation, promises if plan.promise else "")
    journal = Journal.begun(config, account.ledger.identity)
    if journal is not None and charges and not is_published(config) and not all_committed(charges):
        check_same(binding(plan), config, journal, charges)
    return plan


def check_standing(config: ReleaseConfig, account: Account, charges: list[Charge], found: Journal | None) -> None:
    """Raise InputError (AlreadyMade, if it is whole) if a release was charged and cannot go on from this journal."""
    known = found is not None and all(charge.entry.journal == found.mark for charge in charges)
    if known or not charges:
        return
    charged = f"release {account.release!r} of data set {account.dataset!r} was charged already"
    if not all_committed(charges):
        if Journal.unreadable(account.release) is not None:
            raise InputError(unreadable_sentence(account.release))
        raise InputError(f"{charged}, and is not kept in {str(state_folder())!r}; choose another id")
    if settings_hash(charges[0].entry.config) != config.digest:
        raise InputError(f"{charged}, with other settings; choose another id")
    raise AlreadyMade(f"{charged} and is whole; there is nothing to do")


def check_none_waits(config: ReleaseConfig, account: Account) -> None:
    """Raise InputError if another release into this folder was charged and waits to be resumed.

    The command of a killed run, given again, would pay a second time for what may be resumed.
    """
    place = os.path.realpath(config.output)
    for journal in Journal.all():
        other = journal.root.name
        if other == config.release_id or os.path.realpath(journal.output) != place:
            continue
        with suppress(InputError), journal.held():  # one that runs holds the place, which is said elsewhere
            dataset, same = journal.config.dataset, journal.ledger == account.ledger.identity
            if dataset is None or (same and not account.ledger.charges(dataset, other)):
                continue
            break
    else:
        return
    raise InputError(
        f"release {other!r} into {config.output!r} was charged and did not end; continue it, what was saved costs "
        f"nothing more (equistrata resume {other}), or give it up (equistrata resume --discard {other}), or choose "
        "another --output"
    )


def all_committed(charges: Sequence[Charge]) -> bool:
    """Whether every charge of a release was committed: it is whole."""
    return all(charge.outcome == "committed" for charge in charges)


def is_published(config: ReleaseConfig) -> bool:
    """Whether the output folder is this very release (it appears by one rename, so it is whole)."""
    if config.release_id is None:
        return False
    try:
        told = ledger_of(read_card(Path(config.output)))
        if told is None or (told["release_id"], told["dataset"]) != (config.release_id, config.dataset):
            return False
        account = account_of(config)
        return account is None or bool(told["ledger"] == account.ledger.identity)
    except LedgerError:
        return True  # nothing can be charged now, either
    except InputError:
        return False

"""The plan of a new or a charged release, after all checks that do not need any row."""

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


class ReleaseExists(InputError):
    """Error that is raised if the release is already complete in the ledger. Nothing was charged again."""

    exit_code = 0


def with_release_id(config: ReleaseConfig, unique: str | None = None) -> ReleaseConfig:
    """Return the configuration with a release id.

    If it is charged and has no id, the id is created from the name of the output.
    """
    if config.dataset is None or config.release_id is not None:
        return config
    return config.changed(release_id=new_id(Path(config.output).name, unique))


_prepared: list[tuple[Plan, Account | None]] = []  # the last plan of this process that has not run yet


def prepare(config: ReleaseConfig) -> tuple[Plan, Account | None]:
    """Create the plan of a release after all checks that do not need any row. Nothing is written or charged.

    If this process runs a release with the same configuration next, it uses this plan.

    Parameters
    ----------
    config : ReleaseConfig
        The configuration.

    Returns
    -------
    plan : Plan
        The plan.
    account : Account or None
        The account that is charged.

    Raises
    ------
    InputError
        If the configuration is not valid. It is AlreadyMade if the release is complete.
    LedgerError
        If the ledger cannot be used.
    BudgetExceeded
        If the price is larger than the remaining budget.
    """
    account = account_of(config)
    _prepared[:] = [(Plan.of(config) if account is None else _plan_of_charged(config, account), account)]
    return _prepared[0]


def prepared_plan(config: ReleaseConfig) -> tuple[Plan, Account | None]:
    """Return the last result of `prepare` for this configuration, but only once.

    If there is none, the plan is created now.
    """
    (plan, account), *_ = [each for each in _prepared if each[0].config == config] or [prepare(config)]
    _prepared.clear()
    return plan, account


def _plan_of_charged(config: ReleaseConfig, account: Account) -> Plan:
    verify_with_cards(account.ledger, Path(config.output).absolute().parent)
    opened = account.ledger.account(account.dataset)  # raises an error if the data set does not exist
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
            f"release {account.release!r} was charged, but something that it needs has changed: {error}; or "
            f"give the release up (equistrata resume --discard {account.release})"
        ) from None
    if not charges:
        check_no_pending_release(config, account)
        promises = f" (its synthesizer {plan.mechanism.name} promises (ε, δ) only, which costs ρ = ε²/2)"
        account.check_price(plan.price.total, plan.relation, promises if plan.promise else "")
    journal = Journal.begun(config, account.ledger.identity)
    if journal is not None and charges and not is_published(config) and not all_committed(charges):
        check_same(binding(plan), config, journal, charges)
    return plan


def check_standing(config: ReleaseConfig, account: Account, charges: list[Charge], found: Journal | None) -> None:
    """Check that a charged release can be resumed from its journal.

    Raises
    ------
    InputError
        If the release was charged and this journal does not belong to it. It is AlreadyMade if the release is complete.
    """
    known = found is not None and all(charge.entry.journal == found.mark for charge in charges)
    if known or not charges:
        return
    charged = f"release {account.release!r} of data set {account.dataset!r} was charged already"
    if not all_committed(charges):
        if Journal.unreadable(account.release) is not None:
            raise InputError(unreadable_sentence(account.release))
        raise InputError(f"{charged}, but nothing of it is saved in {str(state_folder())!r}; choose another id")
    if settings_hash(charges[0].entry.config) != config.digest:
        raise InputError(f"{charged}, with other settings; choose another id")
    raise ReleaseExists(f"{charged} and is complete; there is nothing to do")


def check_no_pending_release(config: ReleaseConfig, account: Account) -> None:
    """Check that no other release into this folder was charged and can be resumed.

    If a run was killed and its command is repeated, the user would otherwise pay a second time.

    Raises
    ------
    InputError
        If there is another release.
    """
    place = os.path.realpath(config.output)
    for journal in Journal.all():
        other = journal.root.name
        if other == config.release_id or os.path.realpath(journal.output) != place:
            continue
        with suppress(InputError), journal.held():  # if it is running, it holds the output, which is reported elsewhere
            dataset, same = journal.config.dataset, journal.ledger == account.ledger.identity
            if dataset is None or (same and not account.ledger.charges(dataset, other)):
                continue
            break
    else:
        return
    raise InputError(
        f"release {other!r} into {config.output!r} was charged, but is not complete; continue it with "
        f"equistrata resume {other} (what was saved costs nothing more), give it up with equistrata "
        f"resume --discard {other}, or choose another --output"
    )


def all_committed(charges: Sequence[Charge]) -> bool:
    """Return True if every charge of a release was committed, which means that it is complete."""
    return all(charge.outcome == "committed" for charge in charges)


def is_published(config: ReleaseConfig) -> bool:
    """Return True if the output folder contains this release. It is created by a single rename, so it is complete."""
    if config.release_id is None:
        return False
    try:
        told = ledger_of(read_card(Path(config.output)))
        if told is None or (told["release_id"], told["dataset"]) != (config.release_id, config.dataset):
            return False
        account = account_of(config)
        return account is None or bool(told["ledger"] == account.ledger.identity)
    except LedgerError:
        return True  # nothing can be charged without the ledger
    except InputError:
        return False

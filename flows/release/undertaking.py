"""A run of a release, which is charged before it draws noise and can be resumed after a crash.

The charge always covers the noise that is drawn. The run consists of the following steps. If a crash occurs at any
point, the release can be resumed:

1. The journal is created with the settings and everything else that determines the release.
2. The rows are read into the private working folder, which is removed by the next run.
3. The whole price is charged in one transaction of the ledger.
4. Each fit and each mean is recorded as started, its noise is drawn, and the result is saved in one step.
5. The release folder is created by one rename.
6. The charge is committed in the ledger.
7. The journal is removed.

A resumed release uses the saved results at no cost. If a result was started but not saved in a run that died, it is
charged again before its noise is drawn again. See docs/proofs/budget.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.account import Account, account_of, unchanged
from equistrata.flows.release.binding import Binding, binding, check_same, config_hash
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.prepared import all_committed, check_standing, is_published, prepared_plan
from equistrata.flows.release.price import SYNTHESIS, UNIT_SIZES
from equistrata.flows.run.disk import DiskFull, raise_disk_full
from equistrata.flows.run.journal import Journal, state_folder
from equistrata.flows.run.landing import check_output, claimed_output
from equistrata.flows.run.workspace import Workspace, private_workspace, remove_dead_workspaces, unit_name
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.fingerprint import content_digest
from equistrata.privacy.ledger.ledger import ChargeDetails, Ledger, LedgerError


class ReleaseRun:
    """One run of a release.

    Attributes
    ----------
    account, journal : Account or None, Journal or None
        The account and the journal. They are None if no ledger is charged.
    evaluates : bool
        True if exact scores are requested and the rows are available.
    published : bool
        True if the release folder already exists, so that only the ledger has to be updated.
    """

    def __init__(
        self, plan: Plan, work: Workspace, account: Account | None = None, journal: Journal | None = None
    ) -> None:
        self.plan, self.work, self.account, self.journal = plan, work, account, journal
        self.evaluates = plan.config.evaluate != "none"
        self._charges = account.charges() if account else []
        self._bound: Binding = {}
        self._read: bytes | None = None  # the digest of the files that this run has read
        self._drawing = False
        whole = bool(self._charges) and all_committed(self._charges)
        self.published = whole or is_published(plan.config)

    def bind(self) -> None:
        """Store the binding of the charge or, if the release is already charged, check it.

        If it has changed, an InputError is raised.
        """
        if self.journal is None or self.published:  # a complete release does not draw any more noise
            return
        self._bound = binding(self.plan)
        if self._charges:
            check_same(self._bound, self.plan.config, self.journal, self._charges)
        else:
            self.journal.bind(self._bound)

    def load(self, read: Callable[[], None]) -> None:
        """Read the rows if they are needed.

        Parameters
        ----------
        read : callable
            Function that reads the rows.

        Raises
        ------
        InputError
            If noise was drawn from other rows, or if the rows of a charged release were changed while they were read.
            Otherwise the record would describe rows that were not measured, and a resumed release would combine both.
        """
        complete = not any(self._unsaved(part) for part in self.plan.parts)
        if complete and not self.evaluates:
            return
        try:
            self._read = unchanged(self.plan.source, read)
            same = self.journal is None or self.journal.same_rows(self._read, first=not self._charges)
        except InputError as error:
            if not complete or isinstance(error, DiskFull):
                raise
            same = False
        if not same and not complete:
            assert self.account is not None
            raise InputError(
                f"the input has changed since release {self.account.release!r} began, so its measurements cannot "
                "be used with the new input; restore the old input, or give the release up (equistrata resume "
                f"--discard {self.account.release})"
            )
        self.evaluates = self.evaluates and same  # only the scores need rows if all noise was saved

    def charge(self) -> None:
        """Charge the whole price, or the noise that is drawn again, before noise is drawn.

        Raises
        ------
        BudgetExceeded
            If the price is larger than the remaining budget.
        LedgerError
            If the ledger refuses the charge.
        """
        if self.account is None:
            return
        assert self._bound, "bind comes first"
        account, plan, charges = self.account, self.plan, self._charges
        # A part is charged again if one of its unsaved units was started in as many runs as the part was paid for.
        paid = {part: sum(part in charge.entry.parts for charge in charges) for part in plan.parts}
        begun = {part: [len(set(self.work.starts(unit))) for unit in self._unsaved(part)] for part in plan.parts}
        parts = [part for part in plan.parts if not charges or any(runs >= paid[part] for runs in begun[part])]
        if charges and parts:
            spent = sum((charge.entry.rho for charge in charges), start=Rho(0))
            again = sum((plan.parts[part] for part in parts), start=spent)
            plan.epsilon_of(again, self.times + (SYNTHESIS in parts))  # raises an error if there is no valid ε
        if parts:
            content = self._read or content_digest(plan.source.files())
            rows = charges[0].entry.fingerprint if charges else account.fingerprint(self.work, content)
            account.ledger.reserve(
                account.dataset,
                sum((plan.parts[part] for part in parts), start=Rho(0)),
                account.release,
                ChargeDetails(
                    parts=parts,
                    reason=f"noise drawn again after a crash: {', '.join(parts)}" if charges else None,
                    epsilon=None if charges or plan.month else plan.config.epsilon,
                    delta=None if charges or plan.month else plan.config.delta,
                    fingerprint=None if rows is None else str(rows),
                    relation=plan.relation,
                    mechanism=plan.mechanism.name,
                    strata=" × ".join(plan.strata.columns) or None,
                    config=config_hash(plan.config, self._bound),
                    journal=self.journal.mark if self.journal else None,
                ),
                series=plan.month.standing if plan.month else None,
            )
        for charge in charges:
            account.ledger.resume(charge.entry)
        self._charges = account.charges()
        self._drawing = True

    @property
    def times(self) -> int:
        """The number of times that the synthesis was paid for, which is 1 if there is no ledger."""
        return sum(SYNTHESIS in charge.entry.parts for charge in self._charges) or 1

    def statement(self) -> dict[str, Any] | None:
        """Return the part of the card that describes the ledger, or None if there is no ledger."""
        if self.account is None:
            return None
        ledger, dataset = self.account.ledger, self.account.dataset
        opened, left = ledger.account(dataset), ledger.remaining(dataset)
        spent = sum((charge.entry.rho for charge in self._charges), start=Rho(0))
        config = self.plan.config
        assert opened.delta is not None
        return {
            "dataset": dataset,
            "release_id": self.account.release,
            "ledger": ledger.identity,
            "head": str(ledger.head),
            "charges": [
                {"entry": e.entry, "rho": float(e.rho), "parts": list(e.parts), "reason": e.reason}
                for e in (charge.entry for charge in self._charges)
            ],
            "rho": float(spent),
            "epsilon": self.plan.epsilon_of(spent, self.times)
            if self._charges[1:] or self.plan.month
            else config.epsilon,
            "budget": {"epsilon": opened.epsilon, "delta": opened.delta, "rho": float(opened.rho)},
            "left": {"epsilon": left.epsilon(opened.delta), "delta": opened.delta, "rho": float(left)},
        }

    def finish(self) -> None:
        """Commit the charges and remove the journal."""
        if self.account is None or self.journal is None:
            return
        try:
            for charge in self.account.charges():
                if charge.outcome == "failed":
                    self.account.ledger.resume(charge.entry)
                self.account.ledger.commit(charge.entry)
        except LedgerError as error:
            raise LedgerError(
                f"the release in {self.plan.config.output!r} is complete, but the ledger could not be updated: "
                f"{error}; then run equistrata resume {self.account.release}"
            ) from None
        self.journal.remove()

    def fail(self, error: BaseException) -> None:
        """Mark the charges as failed if noise may have been drawn.

        The results that were paid for are kept, so that the release can be resumed.
        """
        if self.account is None or self.journal is None or is_published(self.plan.config):
            return
        with suppress(LedgerError):
            for charge in self.account.charges():
                if self._drawing and charge.outcome == "reserved":
                    self.account.ledger.fail(charge.entry, type(error).__name__)

    def _unsaved(self, part: str) -> list[int | str]:
        """Return the units of a part that do not have saved results."""
        if part == SYNTHESIS:
            return [i for i in range(len(self.plan.fitted.keys)) if not self.work.measurements(i).exists()]
        saved = self.work.found(part) if part in {UNIT_SIZES, *self.plan.openings} else self.work.mean(part)
        return [] if saved.exists() else [part]


@contextmanager
def under_way(config: ReleaseConfig) -> Iterator[ReleaseRun]:
    """Run a release or the rest of a release in the block, and record the outcome in the ledger.

    All errors are passed on.
    """
    plan, account = prepared_plan(config)
    output = Path(config.output)
    with ExitStack() as stack:
        stack.enter_context(raise_disk_full(state_folder(), config.scratch or gettempdir(), output.parent))
        # The output is reserved first, so that nothing is written or charged if this fails.
        landing = None if is_published(config) else stack.enter_context(claimed_output(output))
        if account is None:
            check_output(output)  # another run may have created it before this one has reserved it
            yield ReleaseRun(plan, stack.enter_context(private_workspace(config.scratch, landing=landing)))
            return
        journal = Journal.open(config, account.ledger.identity)
        stack.enter_context(journal.held())
        with _remove_if_uncharged(journal, account):
            lease = stack.enter_context(account.lease(journal))
            check_standing(config, account, account.charges(), journal)  # the release may be complete by now
            journal = _redirect_journal(config, journal)
            units = tuple(unit_name(plan.fitted.columns, key) for key in plan.fitted.keys)
            kept = journal.paid, journal.next_run(), units
            work = stack.enter_context(private_workspace(config.scratch, *kept, landing))
            run = ReleaseRun(plan, work, account, journal)
            run.bind()
            try:
                if not run.published and os.path.lexists(config.output):
                    raise InputError(
                        f"output folder {config.output!r} exists already and is not this release; move it away, or "
                        f"choose another: equistrata resume {config.release_id} --output FOLDER"
                    )
                yield run
            except BaseException as error:
                run.fail(error)
                raise
        lease.check()
        run.finish()


@contextmanager
def _remove_if_uncharged(journal: Journal, account: Account) -> Iterator[None]:
    """Remove the journal if the block fails and nothing was charged."""
    try:
        yield
    except BaseException:
        with suppress(LedgerError):
            if journal.untouched or not account.charges():
                journal.remove()
        raise


def _redirect_journal(config: ReleaseConfig, journal: Journal) -> Journal:
    """Return the journal with a new output folder.

    Raises
    ------
    InputError
        If the release is already complete in another folder.
    """
    there = journal.config.model_copy(update={"output": str(journal.output)})
    if is_published(there) and not is_published(config):
        raise InputError(
            f"release {config.release_id!r} is complete in {there.output!r}; resume it without another output folder"
        )
    return journal.moved_to(config.output)


def discard(journal: Journal) -> None:
    """Give up a release. Its charges are marked as failed and remain spent.

    Raises
    ------
    LedgerError
        If the ledger cannot be used.
    InputError
        If the release is running or complete.
    """
    with journal.held():
        if is_published(journal.config):
            raise InputError(
                f"release {journal.root.name!r} is complete in {journal.config.output!r}; resume it instead"
            )
        account = account_of(journal.config)
        assert account is not None
        with account.lease(journal):
            for charge in account.charges():
                if charge.outcome == "reserved":
                    account.ledger.fail(charge.entry, "given up")
        remove_dead_workspaces(journal.config.scratch)
        journal.remove()


def fail_open_charges(ledger: Ledger, release: str) -> int:
    """Mark the open charges of a release as failed, and return their number.

    Raises
    ------
    LedgerError
        If the ledger cannot be used.
    InputError
        If the release has no open charges or is running.
    """
    charges = [charge for account in ledger.accounts() for charge in ledger.charges(account.dataset, release)]
    open_ones = [charge for charge in charges if charge.outcome == "reserved"]
    if not open_ones:
        raise InputError(f"release {release!r} has no open charge in this ledger; see equistrata budget history")
    for charge in open_ones:
        host = ledger.lease_holder(charge.entry.dataset, release)
        if host is not None:
            raise InputError(f"release {release!r} is running on {host!r}; wait until it has ended")
    for charge in open_ones:
        ledger.fail(charge.entry, "given up")
    return len(open_ones)

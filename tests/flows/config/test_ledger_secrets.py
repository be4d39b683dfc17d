"""Tests of a ledger URL with a password in the environment, which must not be written anywhere."""

import json

import pytest
from traces import traces

from equistrata.privacy.ledger.ledger import Ledger


@pytest.mark.slow
def test_a_password_is_in_no_log_card_or_error(equistrata, people, new_database):
    """The test includes releases that are complete, that are refused, that fail inside the flow, and that cannot log
    in.

    The log of Prefect is also searched.
    """
    import psycopg

    url = new_database()
    password = url.split(":")[2].split("@")[0]
    assert password.startswith("canary-")
    ledger = Ledger(url)
    key = "canary-fingerprint-key"
    ledger.create("people", 2, 1e-9, key=key)
    table, schema, _ = people

    def release(output, place=url, **environment):
        return equistrata(
            "release", "--source", "csv", "--input", table, "--schema", schema, "--strata", "SEX", "--workers", 1,
            "--dataset", "people", "--output", output, "--release-id", output, "--evaluate", "none", "--verbose",
            EQUISTRATA_LEDGER_URL=place, EQUISTRATA_LEDGER_KEY=key, EQUISTRATA_STATE=str(equistrata.home / "state"),
            **environment,
        )  # fmt: skip

    whole = release("whole")
    assert whole.returncode == 0, whole.stderr
    assert json.loads((equistrata.home / "whole" / "card.json").read_text())["ledger"]["release_id"] == "whole"
    assert ledger.charges("people", "whole")[0].entry.fingerprint
    with psycopg.connect(url) as connection:  # the charge fails with a message of the database
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'foreign words'; END $$"
        )
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON equistrata_entries FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
    inside = release("inside")
    login = release("login", url.replace(password, password + "-wrong"))
    nowhere = release("nowhere", f"postgresql://steward:{password}@127.0.0.1:9/x")
    for failed, sentence in [
        (inside, "refuses to answer (SQLSTATE P0001)"),
        (login, "refuses the login"),
        (nowhere, "cannot be reached"),
    ]:
        assert failed.returncode == 2, failed.stderr
        assert sentence in failed.stderr
        assert "foreign words" not in failed.stderr
    told = [run.stdout + run.stderr for run in (whole, inside, login, nowhere)]
    for path, content in traces(equistrata.home):
        for secret in (password, key):
            assert secret.encode() not in content, path
    assert not any(secret in text for secret in (password, key) for text in told)
    assert list(equistrata.prefect.rglob("*.db")), "the search must have seen Prefect's database"
    assert sorted(path.name for path in equistrata.home.iterdir() if path.name in ("inside", "login", "nowhere")) == []

"""Tests of rules in the form of text: the rows that are not allowed, and the errors for ambiguous rules."""

import pandas as pd
import pytest

from equistrata.data.problems import load_with_problems, schema_problems
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

COLUMNS = {
    "AGE": {"lower": 0, "upper": 99, "integer": True, "missing": "own", "codes": {-9: "refused"}},
    "PAY": {"lower": 0, "upper": 9000, "missing": 0},
    "BORN": {"type": "date", "lower": "1990-01-01", "upper": "2020-12-31", "every": "year"},
    "SEEN": {"type": "date", "lower": "2000-01-01", "upper": "2020-12-31", "format": "%d.%m.%Y"},
    "MARITAL STATUS": {"values": ["none", "wed"], "labels": {"wed": "Married"}},
    "JOB": {"values": ["no", "yes"]},
    "WORK": {"values": ["yes", "no"]},
    "SCHOOL": {"values": [1, 2, 3], "type": "ordinal"},
    "DEGREE": {"values": [1, 2, 3], "type": "ordinal"},
    "OPEN": {"values": "open"},
}
GOOD = {"AGE": 40, "PAY": 10.5, "BORN": "1999-05-05", "SEEN": "01.02.2003", "MARITAL STATUS": "wed", "JOB": "yes",
        "WORK": "yes", "SCHOOL": 2, "DEGREE": 2}  # fmt: skip


def fits(rule, **changed):
    schema = Schema.from_dict({"columns": {name: COLUMNS[name] for name in GOOD}, "rules": [rule]}, "people")
    frame = pd.DataFrame([GOOD | {name.replace("_", " "): value for name, value in changed.items()}])
    try:
        CodedTable.encode(frame, schema)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(
    ("rule", "obey", "break_"),
    [
        ("AGE >= 15 or `MARITAL STATUS` == 'none'", [{"AGE": 15}, {"AGE": 3, "MARITAL_STATUS": "none"}], [{"AGE": 14}]),
        ("15 <= AGE or `MARITAL STATUS` != 'Married'", [{"AGE": 15}], [{"AGE": 14}]),
        ("AGE > 14.5", [{"AGE": 15}, {"AGE": None}, {"AGE": -9}], [{"AGE": 14}]),
        ("AGE != 7", [{"AGE": 8}, {"AGE": None}], [{"AGE": 7}]),
        ("AGE == 7 or JOB == 'no'", [{"AGE": 7}, {"AGE": -9}, {"JOB": "no"}], [{"AGE": 8}]),
        ("AGE in [7, 9]", [{"AGE": 7}, {"AGE": 9}, {"AGE": None}], [{"AGE": 8}, {"AGE": 40}]),
        ("AGE == 'refused' or JOB == 'yes'", [{"AGE": -9, "JOB": "no"}], [{"AGE": 8, "JOB": "no"}]),
        ("AGE != -9 or JOB == 'no'", [{"AGE": -9, "JOB": "no"}, {"AGE": None}], [{"AGE": -9}]),
        ("AGE < 10 or AGE > 20", [{"AGE": 9}, {"AGE": 21}], [{"AGE": 10}, {"AGE": 15}, {"AGE": 20}]),
        ("BORN < '2000-01-01'", [{"BORN": "1999-12-31"}], [{"BORN": "2000-01-01"}]),
        ("BORN <= SEEN", [{"BORN": "2003-02-01"}],
         [{"BORN": "2003-02-02"}]),
        ("SEEN > BORN", [{"BORN": "2003-01-31"}], [{"BORN": "2003-02-01"}]),
        ("PAY <= AGE or JOB == 'no'", [{}, {"PAY": 40}, {"PAY": 50, "AGE": None}, {"PAY": 50, "JOB": "no"}],
         [{"PAY": 40.1}]),
        ("AGE <= PAY", [{"PAY": 40}], [{"PAY": 39.9}, {"PAY": None}]),  # a missing PAY is equal to 0
        ("JOB == WORK", [{}, {"JOB": "no", "WORK": "no"}], [{"JOB": "no"}]),
        ("JOB != WORK", [{"JOB": "no"}], [{}]),
        ("DEGREE <= SCHOOL", [{"DEGREE": 1}, {}], [{"DEGREE": 3}]),
        ("DEGREE < SCHOOL or AGE >= 30", [{}, {"AGE": 3, "DEGREE": 1}], [{"AGE": 3}]),
        ("SCHOOL >= 2", [{}], [{"SCHOOL": 1}]),
        ("SCHOOL in [1, 3]", [{"SCHOOL": 3}], [{}]),
    ],
)  # fmt: skip
def test_a_row_obeys_or_breaks_a_rule(rule, obey, break_):
    assert all(fits(rule, **row) for row in obey)
    assert not any(fits(rule, **row) for row in break_)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("AGE = 3", "cannot be read; write comparisons that are joined by 'or'"),
        ("AGE >= 15 and JOB == 'no'", "joins comparisons by 'and'; write two rules"),
        ("AGE >= 15 or", "is not a comparison"),
        ("AGE", "is not a comparison"),
        ("3 < 4", "is not a comparison"),
        ("AGE <= AGE", "compares 'AGE' with itself"),
        ("`AGE <= PAY", "cannot be read"),
        ("JOB in ['no' 'yes']", "has no list of values after 'in'"),
        ("JOB in []", "has no list of values after 'in'"),
        ("JOB < 'no'", "needs an order of 'JOB', but its values have none"),
        ("JOB == 'maybe'", "'maybe' is not a value of 'JOB'; it has no, yes"),
        ("AGE <= JOB", "which have different types"),
        ("AGE <= BORN", "which have different types"),
        ("AGE == PAY", "compares numbers with == or !="),
        ("AGE <= PAY or BORN <= SEEN", "compares two pairs of columns"),
        ("AGE <= 120", "contains no number between the bounds 0 and 99"),
        ("BORN <= '1.2.2000'", "is not a range of dates"),
        ("BORN <= 2000", "compares dates of 'BORN' with a number"),
        ("JOB < WORK", "declare both as 'type: ordinal'"),
        ("OPEN == 'x'", "names 'OPEN', which has 'values: open'"),
        ("ZZ <= AGE", "unknown column 'ZZ'"),
        (7, "has a rule that is not a text"),
    ],
)
def test_a_rule_that_says_nothing_clear_is_refused(rule, said):
    with pytest.raises(InputError) as refused:
        Schema.from_dict({"columns": COLUMNS, "rules": [rule]}, "people")
    assert said in str(refused.value)
    assert "schema people" in str(refused.value) or "unknown column" in said


def test_rules_that_no_row_can_obey_are_refused():
    apart = {"A": {"lower": 5, "upper": 9}, "B": {"lower": 0, "upper": 4}}
    with pytest.raises(InputError, match="no row can satisfy, since 'A' begins where 'B' ends"):
        Schema.from_dict({"columns": apart, "rules": ["A <= B"]})
    with pytest.raises(InputError, match="that form a cycle"):
        Schema.from_dict({"columns": COLUMNS, "rules": ["AGE <= PAY", "PAY < AGE"]})
    with pytest.raises(InputError, match="together rule out every row"):
        Schema.from_dict({"columns": COLUMNS, "rules": ["JOB == 'no'", "JOB == 'yes'"]})
    binned = {"A": {"lower": 0, "upper": 9, "edges": [0, 4, 9], "release": "index"}, "B": {"lower": 0, "upper": 4}}
    with pytest.raises(InputError, match="compares 'A', which releases bins"):
        Schema.from_dict({"columns": binned, "rules": ["A <= B"]})


def test_all_problems_of_rules_are_told_at_once():
    document = {"columns": COLUMNS, "rules": ["AGE = 3", "AGE >= 15", "JOB == 'maybe'", "BORN <= AGE"]}
    problems = schema_problems(document, "people")[1]
    assert [problem.split("which ")[1][:12] for problem in problems] == ["cannot be re", "compares JOB", "compares 'BO"]


def test_a_rule_and_an_impossible_combination_say_the_same():
    both = [{"rules": ["AGE >= 15 or JOB == 'no'"]}, {"impossible": [{"AGE": "<15", "JOB": "yes"}]}]
    one, two = (Schema.from_dict({"columns": COLUMNS} | each, "people") for each in both)
    assert one == two
    assert one.digest == two.digest


def test_names_are_read_as_the_table_has_them():
    """The parser of Python would normalise the first name and split the second name."""
    columns = {"ﬁsh": {"values": [1, 2]}, "a-b": {"values": [1, 2]}, "or": {"values": [1, 2]}}
    schema = Schema.from_dict({"columns": columns, "rules": ["ﬁsh == 1 or `a-b` == 1 or `or` == 2"]})
    assert schema.impossible[0].columns == ("ﬁsh", "a-b", "or")
    assert [list(codes) for codes in schema.impossible[0].codes] == [[1], [1], [0]]


def test_digests_of_schemas_without_comparisons_stay():
    """The digest must change if there is a comparison, because a comparison changes the allowed rows."""
    plain = Schema.from_dict({"columns": COLUMNS}, "people")
    compared = Schema.from_dict({"columns": COLUMNS, "rules": ["BORN <= SEEN"]}, "people")
    assert plain.digest == "09aa3021e5dc0fa99768ea76d10227b062ff4a5ed8d1eb39ceffe6a767b67837"
    assert compared.digest != plain.digest
    assert compared.select(["AGE", "SEEN"]).ordered == ()


def test_a_rule_on_a_column_that_a_draft_still_asks_about_waits_for_the_answer(tmp_path):
    draft = tmp_path / "people.yaml"
    lines = [
        "columns:",
        "  AGE: {lower: 0, upper: 99}",
        '  # QUESTION PAY: it may be money. Take "# " off one line, or delete all of them to leave PAY out.',
        "  # PAY: {lower: 0, upper: 9000}  # a number",
        "  GROUP: {from: PAY, bins: [0, 500, 9000]}",
        'rules: ["AGE <= PAY", "AGE >= 15"]',
    ]
    draft.write_text("\n".join(lines))
    schema = Schema.load(draft)
    assert (len(schema.ordered), len(schema.impossible), schema.derived) == (0, 1, ())
    assert [problem.partition(" is a QUESTION")[0] for problem in load_with_problems(draft)[1]] == [
        f"column 'PAY' of schema {draft}"
    ]
    draft.write_text("\n".join(lines).replace("  # PAY", "  PAY"))
    answered = Schema.load(draft)
    assert (len(answered.ordered), len(answered.impossible), len(answered.derived)) == (1, 1, 1)

"""Tests that all errors of a schema are reported at once."""

import pytest
import yaml

from equistrata.data.declaration import built_in_schemas
from equistrata.data.problems import declared_names, load_with_problems, schema_problems
from equistrata.data.schema import Schema
from equistrata.errors import InputError

MANY = """
target: nobody
default: [age, sex, elsewhere]
colour: red
columns:
  age: {lower: 0, upper: 99, edges: [0, 19], integer: maybe, missing: 100, colour: red}
  sex: {values: [1, 2], labels: {3: three}, others: 9}
  job: {values: ["no", "yes"]}
  pay: {lower: 9, upper: 0, edges: [1], sigma: -1, missing: own}
  hours: {lower: 0, upper: 99, edges: [0, 30, 99], release: index, missing: own}
impossible:
  - {age: [0], job: ["yes"]}
  - {job: [perhaps]}
  - {hours: [7]}
  - 5
"""


def test_every_mistake_is_told():
    schema, problems = schema_problems(yaml.safe_load(MANY), "people.yaml")
    told = [
        "column 'age' of schema people.yaml has 'edges' that do not reach",
        "column 'age' of schema people.yaml needs 'integer' to be true",
        "column 'age' of schema people.yaml needs 'missing' to be 'own'",
        "column 'age' of schema people.yaml has the unknown key 'colour'",
        "column 'sex' of schema people.yaml has a label for 3",
        "column 'sex' of schema people.yaml maps 'others' to 9",
        "column 'pay' of schema people.yaml needs 'lower' to be less than 'upper'",
        "column 'pay' of schema people.yaml needs 'sigma'",
        "unknown column 'nobody'",
        "unknown column 'elsewhere'",
        "unknown key 'colour'; known keys are columns",
        "rules out job='perhaps'",
        "rules out hours=7",
        "map columns to lists",
    ]
    for each in told:
        assert sum(each in problem for problem in problems) == 1, each
    assert len(problems) == len(told)
    assert not any("\n" in problem for problem in problems)
    assert schema.names == ("job", "hours")


@pytest.mark.parametrize("name", built_in_schemas())
def test_a_good_schema_has_no_problems(name):
    assert load_with_problems(name) == (Schema.load(name), [])


@pytest.mark.parametrize("document", [None, [], {"columns": []}, {"columns": {1: {"values": [1]}}}, {"columns": {}}])
def test_what_declares_nothing_has_one_problem(document):
    schema, problems = schema_problems(document, "people.yaml")
    assert schema is None
    assert len(problems) == 1


def test_what_is_only_wrong_together_is_told_once():
    both = "columns: {x: {lower: 0, upper: 9, edges: [0, 0.2, 0.8, 9], integer: true}}"
    _, problems = schema_problems(yaml.safe_load(both), "x.yaml")
    assert problems == [str(_refused(both))]
    unclear = "columns: {x: {values: [1, 2, 9], recode: {3: 2}, others: 9}}"
    assert schema_problems(yaml.safe_load(unclear), "x.yaml")[1] == [str(_refused(unclear))]


def _refused(text):
    with pytest.raises(InputError) as caught:
        Schema.from_dict(yaml.safe_load(text), "x.yaml")
    return caught.value


@pytest.mark.parametrize(
    "spec",
    [
        "{values: [yes, no]}",
        "{values: [1, yes]}",
        "{values: ['no', 'yes'], missing: no}",
        "{values: [0, 1], missing: no}",
        "{values: [0, 1], recode: {yes: 1, no: 0}}",
        "{values: ['no', 'yes'], labels: {no: x}}",
    ],
)
def test_truth_values_are_to_be_quoted(spec):
    schema, problems = schema_problems(yaml.safe_load(f"columns: {{x: {spec}}}"), "people.yaml")
    assert schema is None
    assert len(problems) == 1
    assert problems[0].endswith('so quote them: "yes"')


def test_how_the_file_writes_its_cells_holds_beside_what_is_declared_badly():
    text = "file: {decimal: ','}\ndefault: [gone]\ncolumns: {pay: {lower: 0, upper: 9}, age: {lower: 9, upper: 0}}"
    schema, problems = schema_problems(yaml.safe_load(text), "people.yaml")
    assert (schema.file.decimal, schema.names, schema.default, len(problems)) == (",", ("pay",), (), 2)


def test_the_names_of_what_is_declared_badly_too(tmp_path):
    path = tmp_path / "people.yaml"
    path.write_text("columns: {pay: {lower: 0, upper: 9}, age: {lower: 9, upper: 0}}")
    assert declared_names(path) == ["pay", "age"]
    path.write_text("columns: {pay: {lower: 0, upper: 9}}\nsurvey_weight: {column: w, upper: -1}")
    assert declared_names(path) == ["pay", "w"]
    path.write_text("[]")
    assert declared_names(path) == []


@pytest.mark.parametrize(("upper", "named"), [(9, ("pay", "w")), (-1, ("pay",))])
def test_what_names_the_survey_weight_is_right_beside_what_is_declared_badly(upper, named):
    text = "default: [pay, w]\ncolumns: {pay: {lower: 0, upper: 9}, age: {lower: 9, upper: 0}}\n"
    schema, problems = schema_problems(yaml.safe_load(text + f"survey_weight: {{column: w, upper: {upper}}}"), "p.yaml")
    assert (schema.names, len(problems)) == (named, 1 + (upper < 0))


def test_marks_of_rows_are_one_problem_and_the_rest_is_checked():
    mark = "taken_from_rows: [bounds]"
    text = (
        f"columns: {{a: {{lower: 0, upper: 9, {mark}}}, b: {{lower: 9, upper: 0, {mark}}}, c: {{lower: 0, upper: 9}}}}"
    )
    schema, problems = schema_problems(yaml.safe_load(text), "people.yaml")
    assert schema.names == ("a", "c")
    assert len(problems) == 2
    assert 'under confirmed: ["a", "b"]' in problems[0]
    assert "'lower' to be less than 'upper'" in problems[1]

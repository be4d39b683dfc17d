"""Code books in the ways in which agencies, archives and data portals publish them: all say the same of a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drafted_people import COLUMNS, check_drafted

from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.draft import draft
from equistrata.data.files import documents
from equistrata.data.schema import Schema
from equistrata.errors import InputError

ROW_EACH = """{head}
CASE,Case number,,
SEX,Sex,1,Male
{same},2,Female
AGE,Age,{span},
JOB,Job,01,"Farm, forest"
{job},02,Other
{job},{blank},not asked
PAY,Pay,0{to}900,
{pay},-9,refused
"""
SETTINGS = {"same": ",", "job": ",", "pay": ",", "span": "0-99", "to": "-", "blank": "Blank"}
CELL_EACH = """CASE;Case number;{text};
SEX;Sex;{text};{sex}
AGE;Age;{whole};{age}
JOB;Job;{text};{job}
PAY;Pay;{number};{pay}
"""
CELLS = {
    "text": "Text", "whole": "Integer", "number": "Number", "sex": "1 = Male, 2 = Female", "age": "0-99",
    "job": '"01 = Farm, forest; 02 = Other; blank = not asked"', "pay": '"0-900; -9 = refused"',
}  # fmt: skip
MARKDOWN = """# About the data

Some words, with commas, before it.

## People

| Column | Description | Values |
|:---|---|---:|
| **CASE** | Case number | unique |
| `SEX` | Sex | `1` = Male, `2` = Female |
| `AGE` | Age | 0–99 |

## Work

| Variable | Label | Values |
|---|---|---|
| JOB | Job | 01=Farm, forest<br>02=Other<br>empty=not asked |
| PAY | Pay | 0..900; -9=refused |

Licence: CC0
"""
LISTED = """# Data description

- **CASE**: Case number (unique)
- **SEX**: Sex (1 = Male, 2 = Female)
- **AGE**: Age (0-99)
- **JOB**: Job (01 = Farm, forest; 02 = Other; blank = not asked)
- **PAY**: Pay: 0-900; -9 = refused
"""
BELOW = """Variable          Columns   Len
  CASE            1-6       6
  SEX             7         1
  AGE             8-9       2

CASE:  Case number

SEX: Sex
    1\tMale
    2\tFemale

AGE\t\tAge
0-99

JOB - Job
  01   Farm, forest
  02   Other
  NA   not asked

PAY: Pay
  0 - 900
  -9   refused
"""
PAGE = """<!DOCTYPE html><html><body><h1>Codebook &amp; more</h1>
<h3 id="CASE">CASE - Case number</h3><p>text</p>
<h3>SEX - Sex</h3><dl><dt>Variable Name: </dt><dd>SEX</dd><dt>SAS Label: </dt><dd>Sex</dd></dl>
<table><tr><th>Code or Value</th><th>Value Description</th><th>Count</th></tr>
<tr><td>1</td><td>Male</td><td>8</td></tr><tr><td>2</td><td>Female</td><td>9</td></tr>
<tr><td>.</td><td>Missing</td><td>0</td></tr></table>
<h3>AGE - Age</h3><table><tr><th>Code or Value</th><th>Value Description</th></tr>
<tr><td>0 to 99</td><td>Range of Values</td></tr></table>
<table><tr><th>Name</th><th>Label</th><th>Values</th></tr>
<tr><td>JOB</td><td>Job</td><td>01 = Farm, forest<br/>02 = Other<br>blank = not asked</td></tr>
<tr><td>PAY</td><td>Pay</td><td>0 - 900<br>-9 = refused</td></tr></table></body></html>
"""
YAML = """variables:
  CASE: {label: Case number, type: identifier}
  SEX:
    label: Sex
    values: {1: Male, 2: Female}
  AGE: {label: Age, type: integer, min: 0, max: 99}
  JOB:
    label: Job
    nullable: true
    values:
      - {value: 01, description: "Farm, forest"}
      - {value: 02, description: Other}
  PAY: {label: Pay, range: [0, 900], missing_codes: {-9: refused}}
"""
CODED = """
| Code | Meaning |
|---|---|
"""
SECTIONS = f"""# Codebook

## CASE

Case number

## SEX

Sex
{CODED}| 1 | Male |
| 2 | Female |

## AGE

Age

Range: 0–99

## JOB

Job
{CODED}| 01 | Farm, forest |
| 02 | Other |
| (blank) | not asked |

## PAY

Pay

Range: 0–900

- -9: refused
"""
FIELDS = [
    {"varname": "CASE", "varlabel": "Case number", "unique": True},
    {"varname": "SEX", "varlabel": "Sex", "categories": {"Male": 1, "Female": 2}},
    {"varname": "AGE", "varlabel": "Age", "valid_range": "0..99", "categories": []},
    {"varname": "JOB", "varlabel": "Job", "codelist": "CL_JOB", "nullable": True},
    {"varname": "PAY", "varlabel": "Pay", "range": {"min": 0, "max": 900}, "special_values": {"-9": "refused"}},
]
LISTS = {"CL_JOB": [{"id": "01", "name": "Farm, forest"}, {"id": "02", "name": "Other"}]}
OF_SCHEMA = {
    "CASE": {"title": "Case number", "type": "string"},
    "SEX": {"title": "Sex", "oneOf": [{"const": 1, "title": "Male"}, {"const": 2, "title": "Female"}]},
    "AGE": {"title": "Age", "$ref": "#/$defs/years"},
    "JOB": {"title": "Job", "oneOf": [{"$ref": "#/$defs/farm"}, {"const": "02", "title": "Other"}, {"type": "null"}]},
    "PAY": {"title": "Pay", "anyOf": [{"type": "number", "minimum": 0, "maximum": 900},
                                      {"const": -9, "title": "refused"}]},
}  # fmt: skip
DEFINED = {
    "years": {"$ref": "#/$defs/whole"},
    "whole": {"type": "integer", "minimum": 0, "maximum": 99},
    "farm": {"const": "01", "title": "Farm, forest"},
}
BOOKS = {
    "labour force.csv": ROW_EACH.format(head="Variable,Label,Code,Description", **SETTINGS),
    "health interviews.csv": ROW_EACH.format(
        head="SAS Variable Name,Label,Value,Value Label",
        **SETTINGS | {"same": "SEX,Sex", "job": "JOB,Job", "pay": "PAY,Pay", "blank": "BLANK", "to": " - "},
    ),
    "household recode.csv": ROW_EACH.format(
        head="Item Name,Item Label,Value,Value Label", **SETTINGS | {"span": "0:99", "to": ":", "blank": "(na)"}
    ),
    "hospital.csv": ROW_EACH.format(
        head="Data Element,Description,Coding,Value Description", **SETTINGS | {"blank": "."}
    ),
    "public use.csv": ROW_EACH.format(
        head="Variable Name,Question Text,Code,Answer Category", **SETTINGS | {"span": "0 : 99", "blank": ""}
    ),
    "Merkmale.csv": ROW_EACH.format(head="Merkmal,Bezeichnung,Ausprägung,Bedeutung", **SETTINGS | {"blank": "leer"}),
    "dicionário.csv": ROW_EACH.format(
        head="Dicionário de variáveis,,,\nCódigo da variável,Quesito,Categorias,\n,descrição,Tipo,Descrição",
        **SETTINGS | {"to": " a ", "blank": ""},
    ),
    "unknown headings.csv": ROW_EACH.format(head="Muuttuja,Label,Code,Meaning", **SETTINGS),
    "living conditions.csv": "VARIABLE NAME;VARIABLE DESCRIPTION;FORMAT;VALUES\n" + CELL_EACH.format(**CELLS | {
        "text": "N1", "sex": '"1 Male\n2 Female"', "job": '"01 Farm, forest\n02 Other\nblank not asked"',
        "pay": '"0 - 900\n-9 refused"', "whole": "N2", "number": "N4"}),
    "campos.csv": "Nombre del campo;Descripción;Tipo;Rango_claves\n" + CELL_EACH.format(**CELLS | {
        "sex": '"1. Male; 2. Female"', "job": '"01. Farm, forest\n02. Other\nBlanco por pase"',
        "pay": '"de 0 a 900\n-9. refused"', "text": "Alfanumérico", "whole": "Entero", "number": "Numérico"}),
    "archive.csv": "Variable;Variable label;Measurement;Value labels\n" + CELL_EACH.format(**CELLS | {
        "sex": "Value = 1 Label = Male | Value = 2 Label = Female", "text": "nominal", "whole": "scale",
        "number": "scale", "pay": "0-900 | -9 = refused",
        "job": '"Value = 01 Label = Farm, forest | Value = 02 Label = Other | Value =  Label = not asked"'}),
    "portal.csv": "Column Name;Description;Data Type;Domain values;Null allowed\n"
    "CASE;Case number;Text;;No\nSEX;Sex;Text;Male (1), Female (2);No\nAGE;Age;Number;0-99;No\n"
    'JOB;Job;Text;"01 - Farm, forest | 02 - Other | Blank - not asked";Yes\nPAY;Pay;Number;"0-900; -9 - refused";No\n',
    "two parts.csv": "Table 1,,,\nName,Label,Minimum,Maximum\nCASE,Case number,,\nSEX,Sex,,\nAGE,Age,0,99\nJOB,Job,,\n"
    "PAY,Pay,0,900\nTable 2,,,\nName,Value,Value label,\nSEX,1,Male,\nSEX,2,Female,\n"
    'JOB,01,"Farm, forest",\nJOB,02,Other,\nJOB,blank,not asked,\nPAY,-9,refused,\n',
    "words apart.csv": "Field,Explanation,Type,Values,Value Labels\nCASE,Case number,str,,\n"
    'SEX,Sex,categorical int,"1,2","1=Male, 2=Female"\nAGE,Age,int,0-99,\n'
    'JOB,Job,str,,"01 = Farm, forest; 02 = Other; blank = not asked"\nPAY,Pay,int,0-900; -9 = refused,\n',
    "sets.csv": "variable,description,type,allowed,missing code,nullable\nCASE,Case number,id,any,,no\n"
    'SEX,Sex,code,"1 Male / 2 Female",,no\nAGE,Age,integer,"[0, 99]",,no\n'
    'JOB,Job,code,"01 = Farm, forest; 02 = Other",blank,yes\nPAY,Pay,number,0:900,-9 refused,no\n',
    "sections.md": SECTIONS,
    "labels.csv": "Feature,Description\nCASE,Case number\nSEX,Sex (1 = Male; 2 = Female)\nAGE,Age (0-99)\n"
    'JOB,"Job: 01 = Farm, forest; 02 = Other; blank = not asked"\nPAY,Pay (0-900; -9 = refused)\n',
    "labels.json": json.dumps({
        "CASE": "Case number", "SEX": "Sex (1 = Male; 2 = Female)", "AGE": "Age (0-99)",
        "JOB": "Job: 01 = Farm, forest; 02 = Other; blank = not asked", "PAY": "Pay (0-900; -9 = refused)"}),
    "dashes.md": "| Name | Label | Range / codes | Missing |\n|---|---|---|---|\n| CASE | Case number | – | – |\n"
    "| SEX | Sex | 1 Male, 2 Female | – |\n| AGE | Age | 0–99 | - |\n"
    "| JOB | Job | 01 = Farm, forest; 02 = Other | blank |\n| PAY | Pay | 0–900 | -9 = refused |\n",
    "README.md": MARKDOWN,
    "description.md": LISTED,
    "description.txt": BELOW,
    "codebook.html": PAGE,
    "dictionary.yaml": YAML,
    "answers.json": json.dumps({"codebook": [
        {"variable": "CASE", "question": "Case number"},
        {"variable": "SEX", "question": "Sex", "responses": ["1 - Male", "2 - Female"]},
        {"variable": "AGE", "question": "Age", "range": "0 to 99"},
        {"variable": "JOB", "question": "Job", "allowed_values": ["01", "02"], "blank_allowed": True,
         "value_labels": ["Farm, forest", "Other"]},
        {"variable": "PAY", "question": "Pay", "bounds": [0, 900], "special": {"-9": "refused"}}]}),
    "nested.json": json.dumps({"dataset": {"variables": FIELDS}, "codelists": LISTS}),
    "records.schema.json": json.dumps({"$schema": "x", "type": "array", "$defs": DEFINED, "items": {
        "type": "object", "properties": OF_SCHEMA, "required": ["CASE", "SEX", "AGE", "PAY"]}}),
}  # fmt: skip


@pytest.mark.parametrize("name", BOOKS)
def test_one_table_in_many_books(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(BOOKS[name].encode("latin-1" if name[0] == "M" else "utf-8"))
    check_drafted(path)


PROGRAMS = {
    "people.do": """* labels
label var case `"Case number"'
label var sex `"Sex, as "said""'
label define sex_lbl 1 `"Male"'
label define sex_lbl 2 `"Female"', add
label values sex sex_lbl
lab def job_lbl 1 "Farm, forest" ///
    2 "Other" .a "not asked"
lab val job job_lbl
label define pay_lbl -9 "refused"
label values pay pay_lbl
""",
    "people.sps": """* Labels.
VARIABLE LABELS CASE "Case number"
 SEX 'Sex, as "said"' / JOB "Job".
VALUE LABELS
 SEX 1 "Male" 2 'Female'
 /JOB 1 "Farm, forest" 2 "Other" 9 "not asked"
 /PAY -9 "refused".
MISSING VALUES PAY (-9) JOB (9).
EXECUTE.
""",
    "people.sas": """proc format;
 value sexf 1 = "Male" 2 = 'Female';
 value jobf 1 = "Farm, forest" 2 = "Other" .A = "not asked" 3-8 = "none; here";
 value payf -9 = "refused";
run;
data people; infile "x.dat"; label CASE = "Case number" SEX = 'Sex, as "said"';
 format SEX sexf. JOB jobf. PAY payf. AGE 3.; run;
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_label_values(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(PROGRAMS[name])
    made = draft(COLUMNS, entries := read_codebook(tmp_path / name, COLUMNS), "people")
    schema = Schema.from_dict(documents.parse(made.text, "draft"), "draft")
    assert schema.names == ("SEX", "JOB")
    assert (schema["SEX"].label, dict(schema["SEX"].labels)) == ('Sex, as "said"', {1: "Male", 2: "Female"})
    labels = {str(raw): words for raw, words in schema["JOB"].labels}
    assert (labels["1"], labels["2"], len(labels)) == ("Farm, forest", "Other", 3)
    assert [words for each in entries.values() for raw, words in each.codes if raw == "-9"] == ["refused"]


DBT = """version: 2
models:
  - name: other
    columns: [{name: X}]
  - name: people
    columns:
      - name: CASE
        tests: [unique, not_null]
      - name: SEX
        description: Sex
        tests: [not_null, {accepted_values: {values: ['1', '2']}}]
      - name: AGE
        data_tests:
          - dbt_utils.accepted_range: {min_value: 0, max_value: 99}
"""
EXPECTED = [
    ("not_be_null", {"column": "SEX"}), ("be_in_set", {"column": "SEX", "value_set": [1, 2]}),
    ("be_between", {"column": "AGE", "min_value": 0, "max_value": 99}), ("be_unique", {"column": "CASE"}),
]  # fmt: skip


RULED = """Data of the turnstiles

Col  Name     Meaning          Permitted
---  -------  ---------------  ---------------
1    station  Station code     KX, VX, PA, EU
2    ticket   Ticket kind      1 adult, 2 child
                               3 senior
3    fare     Fare in pounds   0.00-25.00

Rows are sorted by day.
"""
DEFINED = (
    "<!doctype html><html><body><h1>Gates</h1><dl><dt>station</dt><dd>Station: KX=King, VX=Vaux, PA=Padd, EU=Eust</dd>"
    "<dt>ticket</dt><dd>Ticket kind: 1 adult, 2 child, 3 senior</dd>"
    "<dt>fare<dd>Fare in pounds (0.00-25.00)</dl><p>x</p></body></html>"
)
CONTRACT = """kind: DataContract
schema:
- name: gates
  properties:
  - {name: station, logicalType: string, enum: [KX, VX, PA, EU]}
  - {name: ticket, values: {1: adult, 2: child, 3: senior}}
  - {name: fare, logicalType: number, logicalTypeOptions: {minimum: 0, maximum: 25}}
"""


@pytest.mark.parametrize(("name", "text"), [("a.txt", RULED), ("a.html", DEFINED), ("a.yaml", CONTRACT)])
def test_tables_under_lines_of_dashes_lists_of_definitions_and_contracts(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_codebook(tmp_path / name, ["station", "ticket", "fare"])
    assert [raw for raw, _ in found["station"].codes] == ["KX", "VX", "PA", "EU"]
    assert found["ticket"].codes == (("1", "adult"), ("2", "child"), ("3", "senior"))
    assert (found["fare"].lower, found["fare"].upper) == (0, 25)


@pytest.mark.parametrize("name", ["schema.yml", "suite.json"])
def test_tests_of_a_table(tmp_path: Path, name: str) -> None:
    suite = [{"expectation_type": f"expect_column_values_to_{test}", "kwargs": given} for test, given in EXPECTED]
    (tmp_path / name).write_text(DBT if name[-1] == "l" else json.dumps({"expectations": suite}))
    found = read_codebook(tmp_path / name, COLUMNS)
    assert found["CASE"].identifier
    assert (found["SEX"].codes, found["SEX"].missing) == ((("1", ""), ("2", "")), False)
    assert (found["AGE"].type, found["AGE"].lower, found["AGE"].upper, found["AGE"].missing) == ("number", 0, 99, True)


def test_how_numbers_are_written_is_no_value_and_n_may_be_no(tmp_path: Path) -> None:
    book = "Data element,Coding,Value Description\nAGE,nnn,Years\n,.,Missing\n,.A,Invalid\nSEX,n,no man\n,y,a man\n"
    (tmp_path / "book.csv").write_text(book)
    found = read_codebook(tmp_path / "book.csv", COLUMNS)
    assert (found["AGE"].type, found["AGE"].missing) == (None, True)
    assert found["SEX"].codes == (("n", "no man"), ("y", "a man"))


def test_codes_of_absent_cells_alone_are_no_values(tmp_path: Path) -> None:
    (tmp_path / "book.csv").write_text("name,values\nA,98=Don't know; 99=Refused\nB,8=Not asked; 1=Yes\n")
    found = read_codebook(tmp_path / "book.csv")
    assert [entry.type for entry in found.values()] == [None, "nominal"]


def test_words_of_a_table_schema_are_kept_beside_its_enumeration(tmp_path: Path) -> None:
    field = {"name": "SEX", "constraints": {"enum": ["1", "2"]}, "categories": [{"value": "1", "label": "Male"}, "2"]}
    (tmp_path / "schema.json").write_text(json.dumps({"fields": [field]}))
    assert read_codebook(tmp_path / "schema.json")["SEX"].codes == (("1", "Male"), ("2", ""))


LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.xlsx", b"PK\x03\x04", "not an Excel workbook that can be read"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "an old Excel workbook, or one with a password; save it as .xlsx"),
        ("a.ods", b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
         "an OpenDocument file; save its sheet as .xlsx or CSV"),
        ("a.pdf", b"%PDF-1.7", "copy its table of columns into a CSV file"),
        ("a.rtf", b"{\\rtf1 a}", "save it as plain text"),
        ("a.csv", "name,values\n".encode("utf-16-le"), "zero bytes; save it as UTF-8"),
        ("a.xml", b"<DDIInstance xmlns='ddi:instance:3_2'/>", "export it as DDI-Codebook"),
        ("a.yaml", b"a: &a [x]\nb: !!set {}", "tags"),
        ("a.yaml", LAUGHS.encode(), "by its aliases"),
        ("a.sql", b"create table people (age int)", "names no columns"),
    ],
)  # fmt: skip
def test_what_is_no_book_is_refused_in_one_sentence(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_codebook(tmp_path / name, COLUMNS)


ODD = [
    '[{"name": ["AGE"], "min": {}, "max": []}, 5, null, {"name": "SEX", "values": 5}, {"name": "AGE", "max": [1]}]',
    '{"fields": {"AGE": [1, 2]}, "variables": 5, "columns": "x", "tables": [1], "tableSchema": 3, "expectations": 4}',
    '{"expectations": [1, {"kwargs": 5}, {"kwargs": {"column": "AGE", "min_value": {}}, "type": 5}]}',
    '{"columns": [{"name": "AGE", "tests": [5, null, {"accepted_values": 5}]}, {"name": "SEX", "tests": "unique"}]}',
    '{"$schema": 1, "properties": {"AGE": {"oneOf": [5, {}]}, "SEX": {"$ref": "#/properties/SEX"}}, "required": 5}',
]


@pytest.mark.parametrize("text", ODD)
def test_a_tree_of_another_kind_breaks_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "book.json").write_text(text)
    keys = {"fields", "variables", "columns", "tables", "tableSchema", "expectations"}
    assert {*read_codebook(tmp_path / "book.json", COLUMNS)} <= {"AGE", "SEX"} | keys


def test_long_cells_take_no_time_and_no_stack(tmp_path: Path) -> None:
    for cell in ("0-9 (" * 20_000, "1" + " " * 100_000 + "x", "1" * 100_000 + "-2", "(" * 100_000, "\n" * 100_000):
        (tmp_path / "book.csv").write_text(f'name,values\nSEX,"{cell}"\n')
        assert read_codebook(tmp_path / "book.csv")["SEX"].type is None

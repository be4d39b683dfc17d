"""What the columns of a dictionary are called, in some languages, and which row of it says so.

>>> placed([["Survey", ""], ["Variable name", "Descripción"], ["AGE", "Age"]], set())
(2, {'name': 0, 'label': 1})
>>> placed([["Field", "Kürzel"], ["Years", "AGE"], ["Male?", "SEX"]], {"age", "sex"})  # by the table's own names
(1, {'name': 1})
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence

from equistrata.data.files.opening import plain_name

_HEADER_ROWS = 10  # a title and remarks may come before the names of a dictionary's columns
_FEW = 2  # columns that a row of entries may name by chance
_MOST_CELLS = 1_000  # of a row that are looked at
# What columns of dictionaries and keys of fields are called, as `plain` writes it; the first of several is meant.
CALLED = {
    "name": ("variable", "variablename", "variablefieldname", "var", "varname", "name", "field", "fieldname",
             "column", "columnname", "item", "attribute", "attributename", "feature", "dataelement", "element",
             "columnheader", "shortname", "variables", "variablenames", "variablecode", "sasvariablename", "saname",
             "itemname", "columnnames", "attributenames", "fieldid", "mnemonic", "campo", "nombre", "nombrecampo",
             "nombredelcampo", "nombrevariable", "nombredelavariable", "mnemonico", "nemonico", "columna",
             "variavel", "nomedavariavel", "codigodavariavel", "coluna", "merkmal", "merkmalsname", "variablenname",
             "spalte", "spaltenname", "feld", "feldname", "champ", "colonne", "nomvariable", "nomdelavariable",
             "variabile", "codvar", "nomvar", "codevariable", "variablesas", "variablespss", "fieldcode", "columnid",
             "exporttag", "cdmfieldname", "physicalname", "questionid"),
    "label": ("label", "variablelabel", "fieldlabel", "description", "variabledescription", "fielddescription",
              "columndescription", "desc", "title", "definition", "question", "questiontext", "meaning", "details",
              "longname", "varlabel", "saslabel", "itemlabel", "variablelabels", "englishtext", "descripcion",
              "descripciondelavariable", "etiqueta", "descricao", "descricaodavariavel", "quesitodescricao",
              "bezeichnung", "beschreibung", "beschriftung", "merkmalsbezeichnung", "libelle",
              "libelledelavariable", "intitule", "descrizione", "etichetta", "concept", "explanation", "labels",
              "notes", "note", "comment", "comments", "remarks",
              "libvar", "libellevariable", "etiquetadevariable", "nombrelargo", "langname", "businessname",
              "userguidance", "columncomment"),
    "remark": ("remark", "remarks", "comment", "comments", "note", "notes", "hint", "bemerkung", "bemerkungen",
               "anmerkung", "remarque", "remarques", "observaciones", "observacoes", "obs", "observation",
               "observations"),
    "type": ("type", "datatype", "dtype", "fieldtype", "class", "kind", "tipo", "tipodedato", "tipodedatos",
             "tipodedado", "datentyp", "typ", "typededonnees", "typevar", "typevariable", "tipovariable",
             "cdmdatatype", "logicaltype", "format"),
    "format": ("format", "dateformat", "datetimeformat", "displayformat", "layout", "pattern"),
    "choices": ("choicescalculationsorsliderlabels", "choices", "values", "categories", "levels", "options",
                "codes", "allowedvalues", "permissiblevalues", "validvalues", "possiblevalues", "responseoptions",
                "coding", "codelist", "valuelabels", "domain", "permittedvalues", "acceptedvalues",
                "acceptablevalues", "answeroptions", "codedvalues", "domainvalues", "listofvalues", "valueset",
                "enumeration", "enum", "valuesrange", "valuesorrange", "validvaluesrange", "rangevalues",
                "rangeorvalues", "valuesandlabels", "codesandlabels", "valuescodes", "codesvalues", "oneof",
                "anyof", "in", "isin", "allowed", "valid", "accepted", "fieldvalues", "responses", "answers",
                "rangecodes", "rangeorcodes", "codesrange", "codesorrange", "permitted", "permissible",
                "possiblevaluescodes", "valores", "valoresposibles", "valorespossiveis", "valoresvalidos",
                "rangoclaves", "rangodevalores", "codigos", "categorias", "auspragungen", "wertebereich", "werte",
                "kodierung", "schlussel", "valeurs", "valeurspossibles", "modalites", "valori"),
    "bounds": ("range", "validrange", "allowedrange", "permittedrange", "valuerange", "rangeofvalues", "bounds",
               "limits", "minmax", "minimummaximum"),
    # Beside values or bounds: codes that are none of them. A book's only column "codes" has its values.
    "beside": ("missingvalues", "missingvalue", "missingcodes", "missingcode", "missingvaluecodes", "specialvalues",
               "specialcodes", "sentinelvalues", "sentinelcodes", "sentinels", "special", "navalues", "nacodes",
               "nonresponsecodes", "nonresponse", "codes", "missingvaluescodes", "missingdata", "valoresperdidos",
               "valoresausentes", "valoresfaltantes", "fehlendewerte", "valeursmanquantes"),
    "code": ("value", "code", "val", "category", "level", "categorycode", "valuecode", "codevalue", "codeorvalue",
             "codeorvalues", "answercode", "optioncode", "valorcodigo", "codigo", "clave", "auspragung", "wert",
             "schlusselwert", "modalite", "codmod", "codemodalite", "codesmodalites", "codevaleur", "answercodes",
             "categoriastipo", "categoriacodigo", "codice", "recodevalue", "choicevalue", "choicecode", "codeformat",
             "optionid", "optionvalue", "responsecode", "responsevalue", "categoryname"),
    "words": ("valuelabel", "codelabel", "categorylabel", "valuedescription", "codedescription", "labelofvalue",
              "valuemeaning", "codemeaning", "categorydescription", "answercategory", "answertext", "optionlabel",
              "valuelabels", "codemeanings", "significado", "descripciondelcodigo", "descripciondelvalor",
              "etiquetadevalor", "bedeutung", "auspragungstext", "wertelabel", "libellemodalite",
              "libelledelamodalite", "libmod", "libellevaleur", "answercategories", "responsecategory",
              "etiquetavalor", "categoriasdescricao", "categoriadescricao", "choicetext", "choicelabel"),
    # The name of a list of codes, in a table of such lists.
    "list": ("list", "listname", "domainname", "codelistname", "valuesetname", "choicelist", "lookup", "lookuptable",
             "liste", "lista"),
    "lower": ("min", "minimum", "lower", "lowerbound", "lowerlimit", "minimumvalue", "rangemin",
              "textvalidationmin", "minvalue", "formatminimum", "low", "minimo", "valorminimo", "kleinsterwert",
              "untergrenze", "valeurminimale", "plausiblevaluelow"),
    "upper": ("max", "maximum", "upper", "upperbound", "upperlimit", "maximumvalue", "rangemax",
              "textvalidationmax", "maxvalue", "formatmaximum", "high", "maximo", "valormaximo", "grossterwert",
              "obergrenze", "valeurmaximale", "plausiblevaluehigh"),
    "check": ("textvalidationtypeorshowslidernumber", "validation"),
    "measure": ("measure", "measurement", "measurementlevel", "levelofmeasurement", "scale"),
    "decimals": ("decimals", "decimalplaces", "dcml", "numericscale", "dec", "decimales", "decimais",
                 "dezimalstellen", "nachkommastellen", "decimalplace"),
    "required": ("requiredfield", "required", "isrequired", "mandatory", "notnull", "obligatorio", "obligatoire",
                 "pflichtfeld"),
    # That cells may be absent: yes or no, a share of them, or the codes that say so.
    "absent": ("nullallowed", "nullsallowed", "nullable", "isnullable", "allownull", "null", "nulls", "missing",
               "missingpct", "missingpercent", "percentmissing", "pctmissing", "missingrate", "missingness",
               "optional", "blankallowed", "allowblank", "blanks", "ismissing"),
    "count": ("count", "counts", "frequency", "freq", "unweightedfrequency", "unweightedcount"),
    "hidden": ("branchinglogicshowfieldonlyif", "branchinglogic", "relevant"),
    "constraint": ("constraint",),  # of XLSForm
    "identifier": ("identifier",),
    "form": ("formname",),
}  # fmt: skip

_AND = re.compile(r"[/,;&|()\[\]]|\b(?:and|or|y|o|e|und|oder|et|ou)\b", re.I)  # between names in one heading
_REMARK = re.compile(r"[(\[][^()\[\]]*[)\]]")
_OF_VALUES = {"choices", "bounds", "beside", "code", "words"}  # several of these are a list of values with words
_MEANT = {name: [what for what in CALLED if name in CALLED[what]] for names in CALLED.values() for name in names}


def plain(text: str) -> str:
    """A heading without blanks, marks and accents, in small letters.

    >>> plain("Código da variável"), plain("Missing %")
    ('codigodavariavel', 'missing')
    """
    return re.sub("[^a-z0-9]", "", unicodedata.normalize("NFKD", text.casefold()))


def _known_as(heading: str) -> str:
    """A heading as `plain` writes it; one of several names, or with a remark in parentheses, as one of CALLED.

    >>> [_known_as(each) for each in ("Allowed values / range", "Notes (English)", "Code, code label", "Unit, size")]
    ['allowedvalues', 'notes', 'values', 'unitsize']
    """
    whole = plain(heading.partition("::")[0])  # label::English (en), as forms of several languages have it
    if whole in _MEANT:
        return whole
    parts = [part for each in _AND.split(heading) if (part := plain(each))]
    if len(parts) > 1 and all(part in _MEANT for part in parts):
        meant = [{*_MEANT[part]} for part in parts]
        if set.intersection(*meant):
            return parts[0]
        if all(each & _OF_VALUES for each in meant):
            return next((part for part in parts if "choices" in _MEANT[part]), "values")
    bare = plain(_REMARK.sub("", heading))
    return bare if bare in _MEANT else whole


def placed(rows: Sequence[Sequence[str]], wanted: Collection[str]) -> tuple[int, dict[str, int]]:
    """How many rows come before a dictionary's first entry, and where those of its columns stand that are known.

    It is the row that names most of them: after the first row, which a title or groups of columns may be, at least two.
    Two rows may do so together: "Categories" above "Code" and "Meaning".

    Args:
        wanted: columns of the table, as `plain_name` writes them. The column of the dictionary that has most of them
            is the one of names, whatever it is called.
    """
    names = _naming(rows, wanted)
    best, known = 0, dict[str, int]()
    for at in range(min(len(rows), _HEADER_ROWS)):
        for below, header in _headers(rows, at):
            if names is not None and _is_entry(rows[at + below], names, wanted):
                continue
            place = _place(header, None)
            place = place if of_lists(place) else _place(header, names)  # lists may be called as columns are
            enough = at == 0 or len(place) > 1 or names is not None
            if (("name" in place and enough) or of_lists(place)) and len(place) > len(known):
                best, known = at + 1 + below, place
    return best, known


def _is_entry(row: Sequence[str], names: int, wanted: Collection[str]) -> bool:
    """Whether a row is one of the table's columns, and no heading, whatever words are in it."""
    cell = row[names] if names < len(row) else ""
    return plain_name(cell) in wanted and "name" not in _MEANT.get(plain(cell), ())


def of_lists(place: Collection[str]) -> bool:
    """Whether a table has lists of codes, each with its name, and no columns.

    >>> of_lists({"list", "code", "label"}), of_lists({"list", "name", "label"}), of_lists({"name", "code", "list"})
    (True, True, False)
    """
    named = "list" in place and "name" in place and not {"code", "choices", "type"} & {*place}
    return named or ("name" not in place and "code" in place and bool({"list", "choices"} & {*place}))


def further(rows: Sequence[Sequence[str]], at: int) -> list[tuple[int, dict[str, int]]]:
    """As `placed`, of rows from `at` on that begin another table: they name three columns of a dictionary or more."""
    found = []
    for start in range(at, len(rows)):
        place = _place([(_known_as(cell),) for cell in rows[start][:_MOST_CELLS]], None)
        if ("name" in place or of_lists(place)) and len(place) > _FEW:
            found.append((start + 1, place))
    return found


def _headers(rows: Sequence[Sequence[str]], at: int) -> list[tuple[int, list[tuple[str, ...]]]]:
    """A row as headings; and with the row below it, where an empty cell is one with that to its left."""
    alone: list[tuple[int, list[tuple[str, ...]]]] = [(0, [(_known_as(cell),) for cell in rows[at][:_MOST_CELLS]])]
    if at + 1 >= len(rows):
        return alone
    above, over = "", list[str]()
    for cell in rows[at][:_MOST_CELLS]:
        above = cell or above
        over.append(above)
    width = min(max(len(rows[at]), len(rows[at + 1])), _MOST_CELLS)
    upper, lower, own = (([*row] + [""] * width)[:width] for row in (over, rows[at + 1], rows[at]))
    both: list[tuple[str, ...]]
    both = [
        (plain(f"{up} {low}"), _known_as(low), _known_as(mine)) for up, low, mine in zip(upper, lower, own, strict=True)
    ]
    return [*alone, (1, both)]


def _place(header: Sequence[tuple[str, ...]], names: int | None) -> dict[str, int]:
    place = {} if names is None else {"name": names}
    for way in range(max(map(len, header), default=0)):  # two rows together say more than one of them
        there: dict[str, dict[str, int]] = {}
        for at, cells in enumerate(header[:_MOST_CELLS]):
            for what in _MEANT.get(cells[way], ()):
                there.setdefault(what, {}).setdefault(cells[way], at)
        for what in (what for what in CALLED if what in there and what not in place):
            free = {name: at for name, at in there[what].items() if at not in place.values()}
            if free:
                place[what] = free[min(free, key=CALLED[what].index)]
    return place


def _naming(rows: Sequence[Sequence[str]], wanted: Collection[str]) -> int | None:
    """The column that has the most names of the table's columns, and at least two; None if none has."""
    found: dict[int, set[str]] = {}
    for row in rows:
        for at, cell in enumerate(row[:_MOST_CELLS]):
            if (name := plain_name(cell)) in wanted:
                found.setdefault(at, set()).add(name)
    most = max(found, key=lambda at: (len(found[at]), -at), default=None)
    return most if most is not None and len(found[most]) > 1 else None

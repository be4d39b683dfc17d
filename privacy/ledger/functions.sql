-- The functions of a ledger in PostgreSQL. Each body in PL/pgSQL follows a line with its kind, signature and type.
-- Helpers run with the rights of their caller. Doors run with the rights of the owner of the tables. Names in braces
-- are constants of the module equistrata.privacy.ledger.postgres.

-- helper: equistrata_json(given text) -> text
-- Return a string in the same form as Python's json.dumps, which is ASCII with surrogate pairs. Literals do not contain
-- a backslash, so that the result does not depend on standard_conforming_strings.
DECLARE written text;
BEGIN
    SELECT string_agg(CASE
        WHEN code IN (34, 92) THEN chr(92) || letter
        WHEN code BETWEEN 32 AND 126 THEN letter
        WHEN code = 8 THEN chr(92) || 'b'
        WHEN code = 9 THEN chr(92) || 't'
        WHEN code = 10 THEN chr(92) || 'n'
        WHEN code = 12 THEN chr(92) || 'f'
        WHEN code = 13 THEN chr(92) || 'r'
        WHEN code < 65536 THEN chr(92) || 'u' || lpad(to_hex(code), 4, '0')
        ELSE chr(92) || 'u' || to_hex(55296 + (code - 65536) / 1024) || chr(92) || 'u'
            || to_hex(56320 + (code - 65536) % 1024)
        END, '' ORDER BY place) INTO written
    FROM (
        SELECT letter, ascii(letter) AS code, place
        FROM regexp_split_to_table(given, '') WITH ORDINALITY AS split(letter, place) WHERE length(letter) > 0
    ) AS letters;
    RETURN chr(34) || coalesce(written, '') || chr(34);
END

-- helper: equistrata_fraction(above numeric, below numeric) -> text
-- Return a fraction in the same form as Python's str(Fraction). Python cannot read a number with more than 4300 digits.
DECLARE common numeric := gcd(above, below);
BEGIN
    above := div(above, common); below := div(below, common);
    IF length(above::text) > 2000 OR length(below::text) > 2000 THEN
        RAISE EXCEPTION 'the amount has too many digits' USING ERRCODE = 'EQ001';
    END IF;
    RETURN above::text || CASE WHEN below = 1 THEN '' ELSE '/' || below::text END;
END

-- helper: equistrata_above(fraction text) -> numeric
BEGIN RETURN split_part(fraction, '/', 1)::numeric; END

-- helper: equistrata_below(fraction text) -> numeric
BEGIN RETURN coalesce(nullif(split_part(fraction, '/', 2), ''), '1')::numeric; END

-- helper: equistrata_recognised(p_dataset text, p_fingerprint text) -> void
-- Check that a worker may store this fingerprint. If it had another key than the steward's, or belonged to the rows of
-- another account, all later charges of the other accounts would be refused. The rules are the same as in
-- `equistrata.privacy.ledger.fingerprint`. The steward may store any fingerprint.
DECLARE people text[]; stated text;
BEGIN
    IF p_fingerprint IS NULL OR session_user = (SELECT pg_get_userbyid(relowner) FROM pg_class
        WHERE oid = '{ENTRIES}'::regclass) THEN
        RETURN;
    END IF;
    IF p_fingerprint !~ ('^key=[0-9a-f]{16} file=[0-9a-f]{64} rows=[0-9a-f]{64} '
        || 'columns=([0-9a-f]{16}(,[0-9a-f]{16})*)?$') THEN
        RAISE EXCEPTION 'no such fingerprint' USING ERRCODE = '{REFUSED}';
    END IF;
    SELECT fingerprint INTO stated FROM {ENTRIES} WHERE kind IN ('create', 'key') AND fingerprint IS NOT NULL
        ORDER BY entry DESC LIMIT 1;
    IF stated IS NULL THEN
        SELECT split_part(fingerprint, ' ', 1) INTO stated FROM {ENTRIES}
            WHERE kind = 'reserve' AND fingerprint LIKE 'key=%' ORDER BY entry LIMIT 1;
    END IF;
    IF stated <> split_part(p_fingerprint, ' ', 1) THEN
        RAISE EXCEPTION 'another key' USING ERRCODE = '{OTHER_KEY}';
    END IF;
    WITH RECURSIVE said AS (
        SELECT dataset AS one, json_array_elements_text(parts::json) AS other FROM {ENTRIES}
            WHERE kind = 'create' AND parts IS NOT NULL
    ), mine AS (
        SELECT p_dataset AS name
        UNION SELECT CASE WHEN one = name THEN other ELSE one END FROM mine JOIN said ON name IN (one, other)
    )
    SELECT array_agg(name) INTO people FROM mine;
    IF EXISTS (SELECT 1 FROM {ENTRIES} WHERE kind = 'reserve' AND dataset <> ALL (people) AND fingerprint LIKE 'key=%'
        AND (split_part(fingerprint, ' ', 2) = split_part(p_fingerprint, ' ', 2)
            OR split_part(fingerprint, ' ', 3) = split_part(p_fingerprint, ' ', 3)
            OR {SAME_COLUMNS} <= (SELECT count(*) FROM (
                SELECT unnest(string_to_array(substr(split_part(fingerprint, ' ', 4), 9), ','))
                INTERSECT SELECT unnest(string_to_array(substr(split_part(p_fingerprint, ' ', 4), 9),
                    ','))) AS shared)))
    THEN
        RAISE EXCEPTION 'these rows are another account''s' USING ERRCODE = '{REFUSED}';
    END IF;
END

-- helper: equistrata_append(made equistrata_entries) -> text
-- Runs with the rights of its caller. It therefore only works in a function that runs as the owner.
DECLARE canonical text;
BEGIN
    SELECT entries + 1, hash INTO STRICT made.entry, made.previous FROM {HEAD} FOR UPDATE;
    made.at := to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00';
    SELECT chr(123) || string_agg(chr(34) || key || chr(34) || ':' || CASE jsonb_typeof(value)
        WHEN 'string' THEN equistrata_json(value #>> ARRAY[]::text[]) ELSE value::text END,
            ',' ORDER BY key COLLATE "C") || chr(125)
        INTO canonical FROM jsonb_each(to_jsonb(made) - 'hash');
    made.hash := encode(sha256(convert_to(canonical, 'UTF8')), 'hex');
    INSERT INTO {ENTRIES} SELECT (made).*;
    UPDATE {HEAD} SET entries = made.entry, hash = made.hash;
    RETURN made.entry || ':' || made.hash;
END

-- door: equistrata_charge(p_dataset text, p_release text, p_rho text, p_reason text, p_parts text[], p_epsilon text, p_delta text, p_relation text, p_mechanism text, p_strata text, p_fingerprint text, p_config text, p_journal text, p_who text, p_software text) -> text
DECLARE
    opened {ENTRIES}; last {ENTRIES}; made {ENTRIES}; again boolean; above numeric; below numeric; word text;
BEGIN
    PERFORM pg_advisory_xact_lock({WRITERS});
    PERFORM 1 FROM {HEAD} FOR UPDATE;
    SELECT * INTO opened FROM {ENTRIES} WHERE dataset = p_dataset AND kind = 'create';
    SELECT * INTO last FROM {ENTRIES} WHERE dataset = p_dataset ORDER BY entry DESC LIMIT 1;
    again := EXISTS (SELECT 1 FROM {ENTRIES} WHERE dataset = p_dataset AND kind = 'reserve' AND release_id = p_release);
    IF NOT coalesce(
        opened.entry IS NOT NULL AND p_relation = opened.relation AND again = (p_reason IS NOT NULL)
        AND length(p_release) BETWEEN 1 AND 100 AND p_release !~ '[[:cntrl:]]' AND btrim(p_release) = p_release
        AND p_rho ~ '^[1-9][0-9]*(/[1-9][0-9]*)?$' AND length(p_rho) <= 1400
        AND coalesce(p_epsilon, '1') ~ '^[0-9]+([.][0-9]+)?(e[+-]?[0-9]+)?$' AND coalesce(length(p_epsilon), 0) <= 40
        AND coalesce(p_delta, '1') ~ '^[0-9]+([.][0-9]+)?(e[+-]?[0-9]+)?$' AND coalesce(length(p_delta), 0) <= 40
        AND p_who IS NOT NULL AND p_software IS NOT NULL
        AND CASE coalesce(array_ndims(p_parts), 1) WHEN 1 THEN array_position(p_parts, NULL) IS NULL ELSE false END,
            false)
    THEN
        RAISE EXCEPTION 'no such charge' USING ERRCODE = '{REFUSED}';
    END IF;
    FOREACH word IN ARRAY ARRAY[p_reason, p_mechanism, p_strata, p_fingerprint, p_config, p_journal, p_who, p_software,
        to_json(p_parts)::text] LOOP
        IF length(word) > 100000 THEN
            RAISE EXCEPTION 'a text is too long' USING ERRCODE = '{REFUSED}';
        END IF;
    END LOOP;
    above := equistrata_above(last.spent) * equistrata_below(p_rho) + equistrata_above(p_rho) *
        equistrata_below(last.spent);
    below := equistrata_below(last.spent) * equistrata_below(p_rho);
    -- An amount with too many digits would leave no room for the digits of later charges. The account would be blocked
    -- although most of its budget is left.
    IF mod({FLOATS}, equistrata_below(p_rho)) <> 0 AND length(div(below, gcd(above, below))::text) > 1500 THEN
        RAISE EXCEPTION 'the amount has too many digits' USING ERRCODE = '{REFUSED}';
    END IF;
    IF above * equistrata_below(opened.rho) > equistrata_above(opened.rho) * below THEN
        RAISE EXCEPTION 'more than is left of the budget' USING ERRCODE = '{REFUSED}';
    END IF;
    IF NOT again THEN
        PERFORM equistrata_recognised(p_dataset, p_fingerprint);
    ELSIF p_fingerprint IS DISTINCT FROM (SELECT fingerprint FROM {ENTRIES} WHERE dataset = p_dataset
        AND kind = 'reserve' AND release_id = p_release ORDER BY entry LIMIT 1)
    THEN
        RAISE EXCEPTION 'charged for other rows' USING ERRCODE = '{REFUSED}';
    END IF;
    made.kind := 'reserve'; made.dataset := p_dataset; made.release_id := p_release; made.reason := p_reason;
    made.rho := equistrata_fraction(equistrata_above(p_rho), equistrata_below(p_rho));
    made.spent := equistrata_fraction(above, below);
    made.parts := to_json(p_parts)::text; made.epsilon := p_epsilon; made.delta := p_delta; made.relation := p_relation;
    made.mechanism := p_mechanism; made.strata := p_strata; made.fingerprint := p_fingerprint; made.config := p_config;
    made.journal := p_journal; made.who := p_who; made.software := p_software;
    RETURN equistrata_append(made);
END

-- door: equistrata_settle(p_entry integer, p_kind text, p_reason text, p_who text, p_software text) -> text
DECLARE charge {ENTRIES}; made {ENTRIES}; became text; sum text;
BEGIN
    PERFORM pg_advisory_xact_lock({WRITERS});
    PERFORM 1 FROM {HEAD} FOR UPDATE;
    SELECT * INTO charge FROM {ENTRIES} WHERE entry = p_entry AND kind = 'reserve';
    SELECT kind INTO became FROM {ENTRIES} WHERE settles = p_entry ORDER BY entry DESC LIMIT 1;
    IF NOT coalesce(
        charge.entry IS NOT NULL AND p_who IS NOT NULL AND p_software IS NOT NULL
        AND coalesce(length(p_reason), 0) + length(p_who) + length(p_software) <= 100000
        AND (p_kind, coalesce(became, 'resume')) IN (('commit', 'resume'), ('fail', 'resume'), ('resume', 'resume'),
            ('resume', 'fail')),
        false)
    THEN
        RAISE EXCEPTION 'no such reservation' USING ERRCODE = '{REFUSED}';
    END IF;
    SELECT spent INTO STRICT sum FROM {ENTRIES} WHERE dataset = charge.dataset ORDER BY entry DESC LIMIT 1;
    made.kind := p_kind; made.settles := p_entry; made.dataset := charge.dataset; made.release_id := charge.release_id;
    made.rho := '0'; made.spent := sum; made.reason := p_reason; made.who := p_who; made.software := p_software;
    RETURN equistrata_append(made);
END

-- door: equistrata_lease(p_dataset text, p_release text, p_token text, p_host text, p_seconds double precision) -> text
-- Take or extend a lease, or return the host that holds it. Tokens cannot be read, so another lease cannot be extended.
DECLARE sealed text := encode(sha256(convert_to(p_token, 'UTF8')), 'hex'); theirs text;
BEGIN
    IF NOT coalesce(
        length(p_dataset) <= 100 AND length(p_release) <= 100 AND length(p_host) <= 300 AND p_seconds BETWEEN 0
            AND 900, false)
    THEN
        RAISE EXCEPTION 'no such lease' USING ERRCODE = '{REFUSED}';
    END IF;
    DELETE FROM {LEASES} WHERE until < clock_timestamp();
    INSERT INTO {LEASES} AS held VALUES (p_dataset, p_release, sealed, p_host,
        clock_timestamp() + p_seconds * interval '1 second')
        ON CONFLICT (dataset, release_id) DO UPDATE SET until = excluded.until, host = excluded.host
            WHERE held.token = excluded.token;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    SELECT host INTO theirs FROM {LEASES} WHERE dataset = p_dataset AND release_id = p_release;
    RETURN coalesce(theirs, '');
END

-- door: equistrata_let_go(p_dataset text, p_release text, p_token text) -> void
BEGIN
    DELETE FROM {LEASES} WHERE dataset = p_dataset AND release_id = p_release
        AND token = encode(sha256(convert_to(p_token, 'UTF8')), 'hex');
END

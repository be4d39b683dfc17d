#!/bin/sh
# Write the settings of one machine with new passwords to a private folder. Existing settings are never overwritten.
#   sh docs/deploy/settings.sh [FOLDER]        (default: ~/.config/equistrata)
# The variables PGHOST, PGPORT, PREFECT_PORT and STATE change the defaults. STATE is the folder for the state of Prefect
# and for unfinished releases.
set -eu
umask 077
folder=${1:-$HOME/.config/equistrata}
state=${STATE:-$HOME/.local/state/equistrata}
postgres=${PGHOST:-127.0.0.1}:${PGPORT:-5432}
port=${PREFECT_PORT:-4200}

if [ -e "$folder/server.env" ]; then
    echo "$folder has settings already; remove it to make new ones" >&2
    exit 1
fi
mkdir -p "$folder" "$state/server" "$state/worker" "$state/releases"
chmod 0700 "$folder" "$state" "$state/server" "$state/worker" "$state/releases"

secret() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
prefect_password=$(secret)
steward_password=$(secret)
worker_password=$(secret)
auth=steward:$(secret)
key=$(secret)

# The settings of the Prefect server. It is only available on this machine, it requires a password, and it has no access
# to the ledger.
cat > "$folder/server.env" <<END
PREFECT_HOME=$state/server
PREFECT_API_URL=http://127.0.0.1:$port/api
PREFECT_SERVER_API_HOST=127.0.0.1
PREFECT_SERVER_API_PORT=$port
PREFECT_SERVER_API_AUTH_STRING=$auth
PREFECT_API_AUTH_STRING=$auth
PREFECT_SERVER_CORS_ALLOWED_ORIGINS=http://127.0.0.1:$port
PREFECT_SERVER_DATABASE_CONNECTION_URL=postgresql+asyncpg://equistrata_prefect:$prefect_password@$postgres/equistrata_prefect
PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE=prefect.server.concurrency.lease_storage.filesystem
PREFECT_SERVER_ANALYTICS_ENABLED=false
DO_NOT_TRACK=1
END

# The settings of the worker and of the command line. They contain the address of the server and a role that can charge
# the ledger but cannot rewrite it.
cat > "$folder/worker.env" <<END
PREFECT_HOME=$state/worker
PREFECT_API_URL=http://127.0.0.1:$port/api
PREFECT_API_AUTH_STRING=$auth
PREFECT_SERVER_ANALYTICS_ENABLED=false
DO_NOT_TRACK=1
EQUISTRATA_LEDGER_URL=postgresql://equistrata_worker:$worker_password@$postgres/equistrata_ledger
EQUISTRATA_LEDGER_KEY=$key
EQUISTRATA_STATE=$state/releases
END

# The settings of the steward, who owns the ledger, opens accounts and sets the key of the fingerprints.
cat > "$folder/steward.env" <<END
EQUISTRATA_LEDGER_URL=postgresql://equistrata_steward:$steward_password@$postgres/equistrata_ledger
EQUISTRATA_LEDGER_KEY=$key
END

# A script that the superuser of PostgreSQL runs once. The worker can read the ledger and call the functions that are
# created with the first account. These functions check every charge in the database. The worker cannot write to any
# table.
cat > "$folder/databases.sql" <<END
\set ON_ERROR_STOP on
CREATE ROLE equistrata_prefect LOGIN PASSWORD '$prefect_password';
CREATE ROLE equistrata_steward LOGIN PASSWORD '$steward_password';
CREATE ROLE equistrata_worker LOGIN PASSWORD '$worker_password';
CREATE DATABASE equistrata_prefect OWNER equistrata_prefect;
CREATE DATABASE equistrata_ledger OWNER equistrata_steward ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0;
REVOKE ALL ON DATABASE equistrata_prefect, equistrata_ledger FROM PUBLIC;
GRANT CONNECT ON DATABASE equistrata_ledger TO equistrata_worker;
\connect equistrata_prefect
CREATE EXTENSION pg_trgm;
\connect equistrata_ledger
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT CREATE ON SCHEMA public TO equistrata_steward;
ALTER DEFAULT PRIVILEGES FOR ROLE equistrata_steward GRANT SELECT ON TABLES TO equistrata_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE equistrata_steward REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE equistrata_steward GRANT EXECUTE ON FUNCTIONS TO equistrata_worker;
END
echo "settings in $folder"

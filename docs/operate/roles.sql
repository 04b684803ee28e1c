-- The roles of a registry and its database: psql -v ON_ERROR_STOP=1 -f roles.sql, as the superuser postgres.
CREATE ROLE skillwire_owner LOGIN;   -- makes and migrates tables: registry init, registry restore
CREATE ROLE skillwire LOGIN;         -- reads and writes rows: replicas, gateways, all other commands
CREATE ROLE skillwire_backup LOGIN;  -- reads: registry backup, registry check

CREATE DATABASE skills OWNER skillwire_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE skills FROM PUBLIC;
GRANT CONNECT ON DATABASE skills TO skillwire, skillwire_backup;

\connect skills
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT ALL ON SCHEMA public TO skillwire_owner;
GRANT USAGE ON SCHEMA public TO skillwire, skillwire_backup;
ALTER DEFAULT PRIVILEGES FOR ROLE skillwire_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO skillwire;
ALTER DEFAULT PRIVILEGES FOR ROLE skillwire_owner IN SCHEMA public
    GRANT USAGE ON SEQUENCES TO skillwire;
ALTER DEFAULT PRIVILEGES FOR ROLE skillwire_owner IN SCHEMA public
    GRANT SELECT ON TABLES TO skillwire_backup;

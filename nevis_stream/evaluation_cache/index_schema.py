"""The tables of an evaluation cache's index."""

SCHEMA = """
CREATE TABLE about (only INTEGER PRIMARY KEY CHECK (only = 0), text TEXT NOT NULL, end INTEGER NOT NULL);
CREATE TABLE models (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, provenance TEXT NOT NULL);
CREATE TABLE samples (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
CREATE TABLE batches (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, provenance TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE tiles (
  number INTEGER PRIMARY KEY AUTOINCREMENT, model INTEGER NOT NULL, state TEXT NOT NULL, plane TEXT NOT NULL,
  form TEXT NOT NULL, first INTEGER NOT NULL, span INTEGER NOT NULL, cells INTEGER NOT NULL, ones INTEGER NOT NULL,
  classes INTEGER NOT NULL, offset INTEGER NOT NULL, digest BLOB NOT NULL, made_by TEXT NOT NULL);
CREATE INDEX tiles_of_a_row ON tiles (model, state, plane);
"""  # noqa: E501
# older caches have none of these tables
CONTENTS = (
    "CREATE TABLE IF NOT EXISTS contents (sample INTEGER PRIMARY KEY, hash TEXT NOT NULL,"
    " digest BLOB NOT NULL)"
)
IMPORTS = (
    "CREATE TABLE IF NOT EXISTS imports (number INTEGER PRIMARY KEY, text TEXT NOT NULL,"
    " digest BLOB NOT NULL)"
)
ERRATA = (
    "CREATE TABLE IF NOT EXISTS errata (number INTEGER PRIMARY KEY, text TEXT NOT NULL,"
    " digest BLOB NOT NULL)"
)
CHECKS = "CREATE TABLE IF NOT EXISTS checks (model INTEGER PRIMARY KEY, digest BLOB NOT NULL)"
# of what the cache is about ("about", 0) and of what made a tile ("tiles", its number)
TEXT_CHECKS = (
    "CREATE TABLE IF NOT EXISTS text_checks (of TEXT NOT NULL, number INTEGER NOT NULL,"
    " digest BLOB NOT NULL, PRIMARY KEY (of, number))"
)
LATER_TABLES = (CONTENTS, IMPORTS, ERRATA, CHECKS, TEXT_CHECKS)

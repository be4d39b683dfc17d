"""Rows come in: sources, schema, coded tables, strata and public weights. This room knows no other room."""

"""Reports of an audit as pages, figures, tables and documents."""

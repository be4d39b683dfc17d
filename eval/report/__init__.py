"""An audit as pages, pictures, tables and documents."""

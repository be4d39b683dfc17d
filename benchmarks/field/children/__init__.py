"""This package contains the synthesizers of other projects. They are run by `benchmarks.field.child`."""

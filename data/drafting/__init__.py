"""Drafts of schemas from code books.

The supported code books have formats that are made for machines, so they are read exactly. If a code book is ambiguous,
the draft contains a question.
"""

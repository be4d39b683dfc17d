"""Drafts of schemas: code books in formats made for machines, read exactly, and questions where they leave a doubt."""

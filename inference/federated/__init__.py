"""Estimates from several tables that remain with the holders of the rows."""

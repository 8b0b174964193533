"""Layer 1b: tables of real life: files and frames read, columns described, rows encoded for models."""

from tractable.tables.description import describe_table as describe_table
from tractable.tables.encoder import TableEncoder as TableEncoder
from tractable.tables.files import WrongTable as WrongTable
from tractable.tables.reading import read_table as read_table
from tractable.tables.target import target_task as target_task

"""Campaigns and results of headstart's lab.

``read`` gives the tables of a campaign as Arrow tables (needs pyarrow); ``results`` gives the results of single tasks as they were written, and
needs nothing but Python. Nothing is ever written.
"""

import hashlib
import json
import os
import re
from collections import namedtuple

__all__ = ["LabError", "Result", "SCHEMA", "TABLES", "account", "read", "results"]

#: Version of the tables that this module knows.
SCHEMA = 1
#: The tables of a campaign.
TABLES = ("rows", "samples", "devices")

#: A task that was done: the task of the plan, how it was done, and its result.
Result = namedtuple("Result", "task record outcome")

_ID = re.compile("[0-9a-f]{64}")


class LabError(Exception):
    """A folder is not what it should be, and why."""


def account(path):
    """The account of a campaign: what was counted, and every task that was not."""
    try:
        with open(os.path.join(path, "account.json"), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as why:
        raise LabError(f"{path} is not a campaign (make one with `headstart lab collect`): {why}") from why


def read(path):
    """The tables of the campaign at ``path``: a dict of ``pyarrow.Table`` by name.

    A table without a line is left out: an experiment may keep no samples. ``experiment`` is a column of each.
    """
    try:
        import pyarrow.dataset
    except ImportError as why:
        raise LabError("tables need pyarrow: pip install pyarrow; `results` works without it") from why
    account(path)
    tables = {}
    for name in TABLES:
        folder = os.path.join(path, name)
        if not os.path.isdir(folder):
            continue
        dataset = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive")
        said = (dataset.schema.metadata or {}).get(b"headstart.schema", b"none").decode("utf-8", "replace")
        if said != str(SCHEMA):
            raise LabError(f"{folder} has tables of schema {said}, this version of headstart.lab reads {SCHEMA}")
        tables[name] = dataset.to_table()
    return tables


def results(path):
    """The results of ``headstart lab work`` below ``path``, in the order of their ids."""
    try:
        names = sorted(name for name in os.listdir(path) if _ID.fullmatch(name))
    except OSError as why:
        raise LabError(f"{path} is not a folder of results: {why}") from why
    for name in names:
        yield _result(os.path.join(path, name), name)


def _result(folder, name):
    try:
        with open(os.path.join(folder, "task.json"), encoding="utf-8") as file:
            record = json.load(file)
        with open(os.path.join(folder, "result.json"), "rb") as file:
            text = file.read()
        if hashlib.sha256(text).hexdigest() != record["sha256"]:
            raise LabError(f"{folder} is damaged: result.json was changed")
        if record["task"]["id"] != name:
            raise LabError(f"{folder} is damaged: it is the result of another task")
        return Result(record["task"], record, json.loads(text))
    except (OSError, ValueError, KeyError, TypeError) as why:
        raise LabError(f"{folder} is damaged: {why!r}") from why

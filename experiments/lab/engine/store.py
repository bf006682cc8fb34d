"""The results of experiments: one SQLite file.

    >>> with Store("results.sqlite") as store:
    ...     for run in store.runs():
    ...         best = min(store.results(run), key=lambda result: result.score)

A run is a task, its protocol and a seed; a file may hold several. Its tables:

- `runs`: one row per run; the protocol is canonical JSON, so that equal protocols are equal text;
- `results`: one row per finished instance;
- `trials`: every candidate of the grid searches behind them;
- `failures`: instances that were given up, with the reason;
- `claims`: instances that are being run, with the owner and its last heartbeat.

An instance is recorded in one transaction, so a process that is killed loses what it was working on
and nothing else. Several processes of one machine may write; claims keep them from doing the same
instance twice. The claim of a process that is gone is void, at once if that can be seen and else
when its heartbeat is `STALE` seconds old.

While somebody writes, the file is in SQLite's WAL mode and has a `-wal` and a `-shm` beside it; the
last writer to leave turns it back into a single plain file.
"""

from __future__ import annotations

import csv
import io
import math
import os
import socket
import sqlite3
import subprocess
import time
import uuid
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import gendr
from gendr._common.files import write_whole
from lab.engine.tasks import Outcome, Trial

# In the header of our files: the application id ("gend") and the version of the layout.
APPLICATION, SCHEMA_VERSION = 0x67656E64, 1
# Seconds that a writer waits for another one, and without heartbeat until a claim is void.
BUSY, STALE = 30.0, 60.0

_SCHEMA = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, task TEXT NOT NULL, protocol TEXT NOT NULL, seed INTEGER NOT NULL,
    version TEXT NOT NULL, created TEXT NOT NULL, protocol_name TEXT NOT NULL,
    UNIQUE (task, protocol, seed));
CREATE TABLE results (
    run INTEGER NOT NULL REFERENCES runs, instance TEXT NOT NULL, score REAL, scale REAL,
    learning_rate REAL, seconds REAL NOT NULL, version TEXT NOT NULL, picture BLOB,
    finished TEXT NOT NULL, UNIQUE (run, instance));
CREATE TABLE trials (
    run INTEGER NOT NULL REFERENCES runs, instance TEXT NOT NULL, seed INTEGER NOT NULL,
    scale REAL, learning_rate REAL, score REAL);
CREATE INDEX trials_of_instance ON trials (run, instance);
CREATE TABLE failures (
    run INTEGER NOT NULL REFERENCES runs, instance TEXT NOT NULL, attempts INTEGER NOT NULL,
    reason TEXT NOT NULL, finished TEXT NOT NULL, UNIQUE (run, instance));
CREATE TABLE claims (
    run INTEGER NOT NULL REFERENCES runs, instance TEXT NOT NULL, owner TEXT NOT NULL,
    heartbeat REAL NOT NULL, UNIQUE (run, instance));
"""


class StoreError(ValueError):
    """A results file cannot be used; the message is one line."""


@dataclass(frozen=True)
class Run:
    """A task with its protocol and seed.

    Attributes:
        id: the number of the run within its file.
        task: "shape" or "pose".
        protocol: canonical JSON of everything that the scores depend on.
        seed: the seed of all random draws.
        version: the version of gendr when the run began.
        created: UTC, ISO 8601.
        protocol_name: a label such as "laptop"; runs may share it.
    """

    id: int
    task: str
    protocol: str
    seed: int
    version: str
    created: str
    protocol_name: str = ""


@dataclass(frozen=True)
class Result:
    """The result of one instance.

    Attributes:
        run: the id of its run.
        instance: the name of the instance.
        score: the score of its best candidate; NaN if all diverged.
        scale: the scale of that candidate, in NDC (NDC^2 for squared distributions).
        learning_rate: the learning rate of that candidate.
        seconds: how long the instance took.
        version: the version of gendr.
        picture: PNG of the fit, if there is one and it was asked for.
        finished: UTC, ISO 8601.
    """

    run: int
    instance: str
    score: float
    scale: float
    learning_rate: float
    seconds: float
    version: str
    picture: bytes | None
    finished: str


@dataclass(frozen=True)
class Failure:
    """An instance that was given up, after how many attempts, and why."""

    instance: str
    attempts: int
    reason: str


class Store:
    """A results file.

    Args:
        path: the file.
        write: whether to write to it; a missing file is then made. A file that is something else is
            never changed.

    Raises:
        StoreError: if the file is missing (for reading), is no SQLite file or that of another
            program, has another schema version, or cannot be written to.
    """

    def __init__(self, path: str | Path, *, write: bool = False) -> None:
        self.path = Path(path)
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._write = write
        self._db = _open(self.path, write)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the last writer to do so turns it back into a single plain file."""
        if self._write:
            with suppress(sqlite3.OperationalError):  # another process still uses the file
                self._db.execute("PRAGMA busy_timeout = 0")
                self._db.execute("PRAGMA journal_mode = DELETE")
        self._db.close()

    @contextmanager
    def _transaction(self) -> Generator[None, None, None]:
        """A transaction that takes the write lock first, so that what it reads stays true."""
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            yield

    # -- runs

    def runs(self) -> list[Run]:
        """All runs of the file, oldest first."""
        rows = self._db.execute(
            "SELECT id, task, protocol, seed, version, created, protocol_name FROM runs ORDER BY id"
        )
        return [Run(*row) for row in rows]

    def find(self, task: str, protocol: str, seed: int) -> Run | None:
        """The run with this task, protocol (as JSON) and seed; None if the file has none."""
        wanted = (task, protocol, seed)
        runs = self.runs()
        return next((run for run in runs if (run.task, run.protocol, run.seed) == wanted), None)

    def begin(self, task: str, protocol: str, seed: int, protocol_name: str = "") -> Run:
        """The run with this task, protocol (as JSON) and seed; it is added if it is new."""
        self._db.execute(
            "INSERT OR IGNORE INTO runs (task, protocol, seed, version, created, protocol_name) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (task, protocol, seed, software_version(), _now(), protocol_name),
        )
        run = self.find(task, protocol, seed)
        assert run is not None  # for the type checker
        return run

    # -- results of a run

    def results(self, run: Run, *, pictures: bool = True) -> list[Result]:
        """The results of a run, in the order in which they were recorded.

        Args:
            run: a run of this file.
            pictures: whether to read the pictures too, which are most of the file.
        """
        picture = "picture" if pictures else "NULL"
        rows = self._db.execute(
            "SELECT run, instance, score, scale, learning_rate, seconds, version, "
            f"{picture}, finished FROM results WHERE run = ? ORDER BY rowid",
            (run.id,),
        )
        return [Result(*row[:2], *map(_number, row[2:5]), *row[5:]) for row in rows]

    def trials(self, run: Run, instance: str) -> list[Trial]:
        """The candidates of the grid search of one instance."""
        rows = self._db.execute(
            "SELECT scale, learning_rate, seed, score FROM trials WHERE run = ? AND instance = ? "
            "ORDER BY rowid",
            (run.id, instance),
        )
        return [Trial(*map(_number, row)) for row in rows]

    def failures(self, run: Run) -> list[Failure]:
        """The instances of a run that were given up."""
        rows = self._db.execute(
            "SELECT instance, attempts, reason FROM failures WHERE run = ? ORDER BY rowid",
            (run.id,),
        )
        return [Failure(*row) for row in rows]

    # -- work

    def claim(self, run: Run, instance: str) -> Literal["claimed", "settled", "taken"]:
        """Claim an instance for this process.

        Returns:
            "claimed": the instance is ours until it is recorded, given up or released.
            "settled": it is finished or was given up.
            "taken": another process works on it.
        """
        key = (run.id, instance)
        with self._transaction():
            for table in ("results", "failures"):
                if self._db.execute(
                    f"SELECT 1 FROM {table} WHERE run = ? AND instance = ?", key
                ).fetchone():
                    return "settled"
            holder = self._db.execute(
                "SELECT owner, heartbeat FROM claims WHERE run = ? AND instance = ?", key
            ).fetchone()
            if holder and holder[0] != self.owner and not _is_void(*holder):
                return "taken"
            claim = (*key, self.owner, time.time())
            self._db.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)", claim)
        return "claimed"

    def heartbeat(self) -> None:
        """Renew the claims of this process; call it well within every `STALE` seconds."""
        self._db.execute(
            "UPDATE claims SET heartbeat = ? WHERE owner = ?", (time.time(), self.owner)
        )

    def release(self) -> None:
        """Give back all claims of this process."""
        self._db.execute("DELETE FROM claims WHERE owner = ?", (self.owner,))

    def record(self, run: Run, outcome: Outcome, version: str = "") -> bool:
        """Record the outcome of an instance and its trials.

        Args:
            run: a run of this file.
            outcome: what to record.
            version: the version of gendr that it is of, if it is not this one.

        Returns:
            False if the instance had a result already; nothing is changed then.
        """
        o, key = outcome, (run.id, outcome.instance)
        values = (o.score, o.scale, o.learning_rate, o.seconds, version or software_version())
        row = (*key, *values, o.picture, _now())
        marks = ", ".join("?" * len(row))
        with self._transaction():
            cursor = self._db.execute(f"INSERT OR IGNORE INTO results VALUES ({marks})", row)
            is_new = cursor.rowcount == 1
            if is_new:
                self._db.executemany(
                    "INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?)",
                    [(*key, t.seed, t.scale, t.learning_rate, t.score) for t in o.trials],
                )
            for table in ("claims", "failures"):
                self._db.execute(f"DELETE FROM {table} WHERE run = ? AND instance = ?", key)
        return is_new

    def give_up(self, run: Run, instance: str, attempts: int, reason: str) -> None:
        """Record that an instance failed."""
        key = (run.id, instance)
        with self._transaction():
            failure = (*key, attempts, reason, _now())
            self._db.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", failure)
            self._db.execute("DELETE FROM claims WHERE run = ? AND instance = ?", key)

    def forget_failures(self, run: Run, instances: Iterable[str]) -> None:
        """Remove recorded failures, so that their instances are run again."""
        with self._transaction():
            self._db.executemany(
                "DELETE FROM failures WHERE run = ? AND instance = ?",
                [(run.id, instance) for instance in instances],
            )


# ---------------------------------------------------------------------------------------------
# opening


def _open(path: Path, write: bool) -> sqlite3.Connection:
    """A connection to a file of ours; a file of any other kind is left unchanged."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder; name a file")
    if not write and not path.is_file():
        raise StoreError(f"there is no results file {path}")
    if not path.parent.is_dir():
        raise StoreError(f"there is no folder {path.parent}")
    if write and not os.access(path.parent, os.W_OK):
        raise StoreError(f"cannot write to the folder {path.parent}")
    uri = f"file:{quote(str(path.absolute()))}?mode={'rwc' if write else 'ro'}"
    try:
        db = sqlite3.connect(uri, uri=True, timeout=BUSY, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreError(f"cannot open {path} ({error})") from None
    try:
        is_new = _check_ours(db, path)
        if is_new and not write:
            raise StoreError(f"{path} is empty")
        if write:
            _prepare(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _header(db: sqlite3.Connection, path: Path) -> tuple[int, int, int]:
    """The application id, the schema version, and the number of tables."""
    try:
        # A single statement sees one consistent state, even while another process makes the tables.
        row = db.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
            "FROM pragma_application_id, pragma_user_version"
        ).fetchone()
    except sqlite3.OperationalError as error:
        raise StoreError(f"cannot read {path} ({error})") from None
    except sqlite3.DatabaseError:
        raise StoreError(f"{path} is no SQLite file; it is left as it is") from None
    application, version, tables = map(int, row)
    return application, version, tables


def _check_ours(db: sqlite3.Connection, path: Path) -> bool:
    """Raise unless a file is empty or one of ours; returns whether it is empty."""
    application, version, tables = _header(db, path)
    if not tables and not application:
        return True
    if application != APPLICATION:
        raise StoreError(f"{path} is a SQLite file, but not of gendr; it is left as it is")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, this gendr has {SCHEMA_VERSION}; "
            "use the gendr that wrote it, or another file"
        )
    return False


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables if the file is new, and let readers and a writer work at the same time."""
    with suppress(sqlite3.OperationalError):  # others use it: keep their mode
        db.execute("PRAGMA journal_mode = WAL")
    try:
        db.execute("BEGIN IMMEDIATE")  # also finds out whether the file can be written to
        with db:
            if not _header(db, path)[2]:
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {APPLICATION}")
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except sqlite3.OperationalError as error:
        raise StoreError(f"cannot write to {path} ({error})") from None


# ---------------------------------------------------------------------------------------------
# small things


def _is_void(owner: str, heartbeat: float) -> bool:
    """Whether the process behind a claim is gone."""
    if time.time() - heartbeat > STALE:
        return True
    host, pid, _ = owner.rsplit(":", 2)
    if host != socket.gethostname() or os.name != "posix":
        return False
    with suppress(PermissionError):  # it is alive, under another user
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
    return False


def _number(value: Any) -> Any:
    """NaN for NULL, which is what SQLite stores for NaN."""
    return math.nan if value is None else value


def _now() -> str:
    return datetime.now(tz=timezone.utc).isoformat(timespec="seconds")


@cache
def software_version() -> str:
    """The version such as "0.1.0+f0d07d5-dirty"; with the commit if run from the repository."""
    folder = Path(gendr.__file__).parent
    try:
        _git("ls-files", "--error-unmatch", "__init__.py", folder=folder)
        commit = _git("describe", "--always", "--dirty", folder=folder)
    except (OSError, subprocess.CalledProcessError):
        return gendr.__version__
    return f"{gendr.__version__}+{commit}"


def _git(*command: str, folder: Path) -> str:
    """What git prints; fails where there is no git, no repository, or nothing to print."""
    git = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=True)
    return git.stdout.strip()


# ---------------------------------------------------------------------------------------------
# tables for other programs

# Of an exported table; "dist" is the distribution without squaring.
COLUMNS = (
    *("run", "task", "protocol", "seed", "instance", "dist", "tconorm", "squared", "scale"),
    *("learning_rate", "score", "seconds", "version"),
)


def check_export(path: str | Path) -> None:
    """Check that `export` will work, before hours are spent on computing the results.

    Raises:
        StoreError: if the path cannot be written to.
    """
    path = Path(path)
    if path.is_dir():
        raise StoreError(f"{path} is a folder; name a file")
    if not os.access(path.parent, os.W_OK):
        raise StoreError(f"cannot write to the folder {path.parent}")


def export(store: Store, path: str | Path) -> None:
    """Write all results of a file as a CSV table with `COLUMNS`; replaces an existing file.

    They come run by run, in the order of the benchmark, then by name.

    Raises:
        StoreError: see `check_export`.
    """
    check_export(path)
    rows: list[Sequence[Any]] = [COLUMNS]
    place = {instance.name: k for k, instance in enumerate(gendr.instances())}
    for run in store.runs():
        results = store.results(run, pictures=False)
        for r in sorted(results, key=lambda r: (place.get(r.instance, len(place)), r.instance)):
            one = gendr.instance(r.instance)
            rows.append((
                run.id, run.task, run.protocol_name, run.seed, r.instance,
                str(one.dist).removesuffix(".squared"), one.tconorm, one.dist.is_squared,
                r.scale, r.learning_rate, r.score, r.seconds, r.version,
            ))  # fmt: skip
    write_csv(path, rows)


def write_csv(path: str | Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write a table; an existing one is replaced when the new one is whole."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_whole(Path(path), text.getvalue().encode())

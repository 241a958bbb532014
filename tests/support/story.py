"""Stories: several sessions on one database, told line by line with what each of them sees.

    # Lost update: what happens, and what PostgreSQL and Froglet make of it.

    == read committed
    setup> create table t (id int primary key, v int)
    T1> begin
    T1> update t set v = 11 where id = 1
        UPDATE 1
    T2> update t set v = 12 where id = 1
        waits
    T1> commit
    T2> ...
        UPDATE 1

`# …`           at the top of the file: what the story is about
`== NAME`       begins a story; a file may hold several
`NAME> SQL`     a session (one connection, opened when it is first named) runs a statement
`NAME> ...`     the statement that waited has gone on, and this is how it ended
`NAME> \\gone`   the client vanishes: its socket is closed without a word
`server> \\kill` kill -9 of the server and a new start; all sessions are gone

The indented lines under a step are what it must come to:

`waits`             it does not come back, while every other step goes on
`UPDATE 1`          its command tag
`(id, v)`           the names of the columns of its result
`1|10, 2|20`        its rows, several on a line or a line each; NULL is NULL, `no rows` is none
`ERROR 40001`       it fails with this SQLSTATE; after a colon, words that its message contains

Nothing under a step: it must succeed.
"""

import os
import queue
import re
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

STORIES = Path(__file__).resolve().parents[1] / "stories"
WAITS_SECONDS = 0.3
ENDS_SECONDS = 30


@dataclass
class Step:
    line: int
    session: str
    text: str
    expected: list[str] = field(default_factory=list)


@dataclass
class Story:
    path: Path
    name: str
    steps: list[Step] = field(default_factory=list)

    def play(self, server):
        """Runs the story on a server."""
        __tracebackhide__ = True
        Play(server, self).run()


def read(path):
    """The stories of a file."""
    stories = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("=="):
            stories.append(Story(path, line.strip("= ")))
        elif line.startswith(" "):
            stories[-1].steps[-1].expected.append(line.strip())
        else:
            session, separator, text = line.partition(">")
            assert separator and stories, f"{path}:{number}: {line}"
            stories[-1].steps.append(Step(number, session, text.strip()))
    assert stories, f"{path} tells no story"
    return stories


def every(folder):
    """A folder's stories, as pytest's parameters."""
    paths = sorted((STORIES / folder).glob("*.story"))
    return [
        pytest.param(story, id=f"{path.stem}: {story.name}") for path in paths for story in read(path)
    ]


class Session:
    """One connection with a thread of its own, so that others go on while it waits."""

    def __init__(self, server):
        self.connection = server.connect(prepare_threshold=None)
        self.statements = queue.Queue()
        self.outcome, self.notices = None, []
        self.connection.add_notice_handler(lambda notice: self.notices.append(notice.message_primary))
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while (statement := self.statements.get()) is not None:
            self.outcome = self.execute(statement)
            self.done.set()

    def execute(self, statement):
        try:
            cursor = self.connection.execute(statement)
            while cursor.nextset():
                pass
        except psycopg.Error as error:
            return [f"ERROR {error.sqlstate}: {error}".splitlines()[0]]
        result = cursor.pgresult
        outcome = [cursor.statusmessage]
        if cursor.description is not None:
            outcome.append(f"({', '.join(column.name for column in cursor.description)})")
            for row in range(result.ntuples):
                values = (result.get_value(row, column) for column in range(result.nfields))
                outcome.append("|".join("NULL" if v is None else v.decode() for v in values))
        return outcome

    def begin(self, statement):
        self.done.clear()
        self.outcome, self.notices = None, []
        self.statements.put(statement)

    def ended(self, seconds):
        return self.done.wait(seconds)

    def vanish(self):
        """The socket goes down without a Terminate, as when a client is killed."""
        with socket.socket(fileno=os.dup(self.connection.fileno())) as raw:
            raw.shutdown(socket.SHUT_RDWR)
        self.close()

    def close(self):
        """Ends the session; a statement that is still under way is cancelled first."""
        if not self.done.is_set():
            try:
                self.connection.cancel_safe(timeout=5)
            except psycopg.Error:
                pass  # The server is gone, and so is the statement.
        self.statements.put(None)
        self.thread.join(5)
        self.connection.close()


class Play:
    """A story on its way."""

    def __init__(self, server, story):
        self.server, self.story = server, story
        self.sessions, self.waiting = {}, set()

    def run(self):
        __tracebackhide__ = True
        try:
            for step in self.story.steps:
                self.step(step)
            assert not self.waiting, f"{self.story.path}: {self.waiting} wait at the end"
        finally:
            for session in self.sessions.values():
                session.close()

    def step(self, step):
        __tracebackhide__ = True
        if step.text == r"\kill":
            self.server.kill_and_restart()
            for session in self.sessions.values():
                session.close()
            self.sessions.clear()
            self.waiting.clear()
            return
        if step.session not in self.sessions:
            self.sessions[step.session] = Session(self.server)
        session = self.sessions[step.session]
        if step.text == r"\gone":
            session.vanish()
            del self.sessions[step.session]
            self.waiting.discard(step.session)
            return
        if step.text == "...":
            self.check(step, step.session in self.waiting, f"{step.session} waits for nothing")
        else:
            self.check(step, step.session not in self.waiting, f"{step.session} still waits")
            session.begin(step.text)
        self.waiting.discard(step.session)
        if step.expected == ["waits"]:
            self.check(step, not session.ended(WAITS_SECONDS), f"no wait, but {session.outcome}")
            self.waiting.add(step.session)
            return
        self.check(step, session.ended(ENDS_SECONDS), f"no answer within {ENDS_SECONDS} s")
        self.compare(step, session.outcome)

    def compare(self, step, seen):
        __tracebackhide__ = True
        failed = seen[0].startswith("ERROR")
        if not step.expected:
            self.check(step, not failed, seen[0])
            return
        first = step.expected[0]
        if first.startswith("ERROR"):
            state, _, words = first.partition(":")
            self.check(step, seen[0].startswith(state + ":") and words.strip() in seen[0], seen)
            return
        self.check(step, not failed, seen)
        if re.fullmatch(r"[A-Z ]+[0-9 ]*", first) and not first.startswith("NULL"):
            self.check(step, seen[0] == first, seen)
            return
        expected = step.expected
        if first.startswith("("):
            self.check(step, seen[1] == first, seen)
            expected = expected[1:]
        if expected:
            rows = [row for line in expected for row in line.split(", ") if row != "no rows"]
            self.check(step, rows == seen[2:], seen[1:])

    def check(self, step, holds, seen):
        __tracebackhide__ = True
        assert holds, (
            f"{self.story.path.name}:{step.line}: {step.session}> {step.text}\n"
            f"    expected: {step.expected or 'success'}\n    seen:     {seen}"
        )

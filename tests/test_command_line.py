"""The binary as a person types it: help, settings from every source, `froglet migrations`."""

import subprocess
import threading

import psycopg
import pytest

from support.processes import wait_until
from support.servers import Froglet, client_environment
from test_migration_scenarios import BIG, SLOW_CHANGE, fill


def froglet_run(*arguments, check=True):
    done = subprocess.run([Froglet.binary(), *arguments], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, env=client_environment())
    if check:
        assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("arguments", [
    [], ["serve"], ["bench"], ["migrations"], ["migrations", "list"], ["migrations", "watch"],
    ["migrations", "cancel"], ["migrations", "pause"], ["migrations", "resume"],
    ["migrations", "throttle"], ["demo"],
], ids=" ".join)
def test_help(arguments):
    """Every subcommand says what it does, on 80 to 100 columns, with an example."""
    text = froglet_run(*arguments, "--help").stdout
    assert "Usage:" in text and "xample" in text
    assert max(map(len, text.splitlines())) <= 120


def test_without_arguments_it_shows_help_and_fails():
    done = froglet_run(check=False)
    assert done.returncode == 2 and "serve" in done.stderr + done.stdout


def test_unknown_words_are_refused():
    assert "srve" in froglet_run("srve", check=False).stderr
    assert "--dat" in froglet_run("serve", "--dat", "x", check=False).stderr


def test_settings_from_file_environment_and_switch(start, tmp_path):
    """The switch beats the environment, which beats the file, which beats the default."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "froglet.toml").write_text(
        "[settings]\nlock_timeout = '1s'\nstatement_timeout = '1s'\nidle_session_timeout = '1h'\n")
    server = start(directory, arguments=["--set", "lock_timeout=3s"],
                   environment={"FROGLET_SETTING_LOCK_TIMEOUT": "2s",
                                "FROGLET_SETTING_STATEMENT_TIMEOUT": "2s"})
    shown = [server.value(f"show {name}") for name in
             ("lock_timeout", "statement_timeout", "idle_session_timeout",
              "idle_in_transaction_session_timeout")]
    assert shown == ["3s", "2s", "1h", "0"]


def test_migrations_list_and_cancel(froglet):
    """The list while a change runs; cancel ends it with 57014."""
    where = ["--port", str(froglet.port)]
    assert "no schema change" in froglet_run("migrations", *where).stdout
    fill(froglet, BIG)
    outcome = []

    def change():
        try:
            froglet.run(SLOW_CHANGE)
            outcome.append("done")
        except psycopg.Error as error:
            outcome.append(error.sqlstate)

    thread = threading.Thread(target=change)
    thread.start()

    def running():
        return outcome or froglet.rows("select id from froglet.migrations where phase = 'scan'")

    [[number]] = wait_until(running, "the change runs")
    assert "md5" in froglet_run("migrations", "list", *where).stdout
    froglet_run("migrations", "cancel", str(number), *where)
    thread.join(60)
    assert outcome == ["57014"]
    assert "aborted" in froglet_run("migrations", *where).stdout


def test_migrations_without_a_server():
    done = froglet_run("migrations", "--port", "1", check=False)
    assert done.returncode == 1 and "127.0.0.1:1" in done.stderr and "panicked" not in done.stderr

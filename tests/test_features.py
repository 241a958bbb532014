"""The features of `tests/features`, on both servers; docs/SUPPORTED.md says the same."""

from support.features import TABLE, differences, table


def test_the_table_is_true(postgres_server):
    found = differences(postgres_server)
    written = TABLE.read_text()
    assert table(found) == written, "run: cd tests && python -m support.features --write"

"""pgbench with scripts of one's own: variables, functions, conditions, \\gset, pipelines, weights, over each protocol."""

import pytest

ACCOUNTS = [
    "create table account (id int primary key, owner text, amount bigint not null)",
    "create table entry (id bigserial primary key, account int references account, delta int, at timestamptz default now())",
    "insert into account select n, 'owner ' || n, 1000 from generate_series(1, 100) as g (n)",
]

TRANSFER = r"""
\set giver random_zipfian(1, 100, 1.2)
\set taker 1 + (:giver + random(0, 97)) % 100
\set amount random(1, 10)
\if :giver != :taker
begin;
select amount from account where id = least(:giver::int, :taker::int) for update \gset first_
select amount from account where id = greatest(:giver::int, :taker::int) for update \gset second_
update account set amount = amount - :amount where id = :giver;
update account set amount = amount + :amount where id = :taker;
insert into entry (account, delta) values (:giver, 0 - :amount), (:taker, :amount);
end;
\endif
"""

READ = r"""
\set id permute(random(1, 100), 100) % 100 + 1
\set name debug(:id * 2)
select amount, owner from account where id = :id \gset
select count(*), sum(delta) from entry where account = :id;
"""

PIPELINE = r"""
\set id random(1, 100)
\startpipeline
update account set owner = 'owner ' || :id where id = :id;
select owner from account where id = :id;
select sum(amount) from account;
\endpipeline
"""

UPSERT = r"""
\set id random(101, 110)
insert into account values (:id, 'new', 0) on conflict (id) do update set owner = excluded.owner || account.amount;
\sleep 1 ms
"""


def scripts(directory, **texts):
    paths = {}
    for name, text in texts.items():
        paths[name] = directory / f"{name}.sql"
        paths[name].write_text(text)
    return paths


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_a_mix_of_scripts(server, tmp_path, protocol):
    """Money is moved, looked at and written down, by eight clients; none is made or lost, and no client fails."""
    server.run(*ACCOUNTS)
    files = scripts(tmp_path, transfer=TRANSFER, read=READ, upsert=UPSERT)
    output = server.pgbench(
        "-n", "-M", protocol, "-c", "8", "-j", "2", "-t", "60", "--max-tries=20",
        "-f", f"{files['transfer']}@4", "-f", f"{files['read']}@3", "-f", f"{files['upsert']}@1", "-r")
    assert "number of transactions actually processed: 480/480" in output
    assert server.value("select sum(amount) from account") == 100_000
    assert server.value("select coalesce(sum(delta), 0) from entry") == 0
    assert server.value("select count(*) from account a where amount <> case when id <= 100 then 1000 else 0 end + "
                        "(select coalesce(sum(delta), 0) from entry where account = a.id)") == 0


@pytest.mark.parametrize("protocol", ["extended", "prepared"])
def test_pipelines(server, tmp_path, protocol):
    server.run(*ACCOUNTS)
    server.pgbench("-n", "-M", protocol, "-c", "4", "-t", "50", "-f", str(scripts(tmp_path, pipeline=PIPELINE)["pipeline"]))
    assert server.value("select count(*) from account where owner = 'owner ' || id") == 100


def test_serialization_failures_are_tried_again(server, tmp_path):
    """--max-tries repeats a transaction that repeatable read has refused."""
    server.run("create table counter (id int primary key, n int)", "insert into counter values (1, 0)")
    add = "begin isolation level repeatable read;\nselect n from counter where id = 1;\nupdate counter set n = n + 1 where id = 1;\nend;\n"
    output = server.pgbench("-n", "-c", "4", "-t", "25", "--max-tries=1000", "-f", str(scripts(tmp_path, add=add)["add"]))
    assert "number of transactions actually processed: 100/100" in output
    assert server.value("select n from counter") == 100


def test_initialization_with_foreign_keys_and_server_side_rows(server):
    """`pgbench -i` with its steps in another order, foreign keys, rows made by generate_series, and vacuum."""
    server.pgbench("-i", "-q", "-I", "dtGvpf", "-s", "1")
    assert server.value("select count(*) from pgbench_accounts") == 100_000
    assert server.value("select count(*) from pg_constraint where contype = 'f' and conrelid::regclass::text like 'pgbench%'") == 5
    server.pgbench("-n", "-c", "2", "-t", "20", "-N")

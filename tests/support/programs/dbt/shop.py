"""dbt on a small project: build, build again, other strategies, from scratch, docs. Prints how each node ended."""

import sys

from dbt.cli.main import dbtRunner

runner = dbtRunner()
RUNS = [
    ["build"],
    ["build", "--vars", "{run: 2}"],
    ["run", "--select", "growing", "--vars", "{run: 3, strategy: append}"],
    ["run", "--select", "growing", "--vars", "{run: 4, strategy: merge}"],
    ["build", "--full-refresh"],
    ["docs", "generate"],
]
where = ["--project-dir", ".", "--profiles-dir", ".", "--target-path", sys.argv[1], "--log-path", sys.argv[1], "--quiet"]
for arguments in RUNS:
    done = runner.invoke([*arguments, *where])
    if done.exception:
        print(" ".join(arguments), "failed:", done.exception)
    for result in sorted(getattr(done.result, "results", None) or [], key=lambda result: result.node.name):
        print(arguments[0], result.node.name, result.status, "" if result.status in ("success", "pass") else result.message)
    if arguments[0] == "docs" and not done.exception:
        for name, table in sorted(done.result.nodes.items()):
            print(name, table.metadata.type, [(c.name, c.type, c.comment) for c in table.columns.values()])

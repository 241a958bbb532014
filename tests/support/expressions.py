"""Expressions over columns, as SQL and as Python.

Nested tuples: `("col", name)`, `("lit", value)`, `(operator, operand, …)`. The model keeps them with column
ids in the place of names, so that they outlive a rename. Numbers are never negative and small, so
that neither remainders nor overflows are anybody's matter here.
"""


def shown(value):
    """A value as PostgreSQL's text format has it."""
    return "NULL" if value is None else str(value)


def literal(value):
    return "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def sql(e, name=lambda column: column):
    """The expression as SQL; `name` tells what a column is called."""
    operator, *operands = e
    if operator == "col":
        return name(operands[0])
    if operator == "lit":
        return literal(operands[0])
    words = [sql(operand, name) for operand in operands]
    if operator in ("length", "coalesce"):
        return f"{operator}({', '.join(words)})"
    if operator == "is null":
        return f"{words[0]} is null"
    return f"({words[0]} {operator} {words[1]})"


def equal(a, b):
    if isinstance(a, str) != isinstance(b, str):
        raise TypeError("a text and a number")
    return a == b


BINARY = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "%": lambda a, b: a % b,
    "||": lambda a, b: f"{a}{b}",
    "=": equal,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
}


def value(e, row):
    """What the expression is for a row, a mapping from columns to values; NULL is None."""
    operator, *operands = e
    if operator == "col":
        return row[operands[0]]
    if operator == "lit":
        return operands[0]
    values = [value(operand, row) for operand in operands]
    if operator == "coalesce":
        return values[1] if values[0] is None else values[0]
    if operator == "is null":
        return values[0] is None
    if operator == "and":
        return False if False in values else None if None in values else True
    if None in values:
        return None
    return len(values[0]) if operator == "length" else BINARY[operator](*values)


def columns(e):
    """The columns it names."""
    operator, *operands = e
    if operator == "col":
        return {operands[0]}
    return set() if operator == "lit" else set().union(*map(columns, operands))


def renamed(e, name):
    """The same of other columns."""
    operator, *operands = e
    if operator == "col":
        return ("col", name(operands[0]))
    return e if operator == "lit" else (operator, *(renamed(operand, name) for operand in operands))

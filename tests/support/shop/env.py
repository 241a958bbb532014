"""Alembic runs this: each revision in a transaction of its own, on the connection that it is given."""

from alembic import context

from support.shop.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata,
    transaction_per_migration=True, compare_type=True, compare_server_default=True)
with context.begin_transaction():
    context.run_migrations()

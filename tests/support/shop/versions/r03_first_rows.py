import sqlalchemy as sa
from alembic import op

revision, down_revision = "r03", "r02"

from sqlalchemy import column, table

customer, purchase = table("customer", column("id"), column("name")), table("purchase", column("customer_id"))


def upgrade():
    op.bulk_insert(customer, [{"name": f"customer {i}"} for i in range(100)])
    op.execute(purchase.insert().from_select(["customer_id"], sa.select(customer.c.id)))


def downgrade():
    op.execute(purchase.delete())
    op.execute(customer.delete())

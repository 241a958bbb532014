import sqlalchemy as sa
from alembic import op

revision, down_revision = "r08", "r07"


def upgrade():
    op.rename_table("purchase", "orders")
    op.execute("alter index ix_purchase_customer_id rename to ix_orders_customer_id")
    op.execute("alter sequence purchase_id_seq rename to orders_id_seq")


def downgrade():
    op.execute("alter sequence orders_id_seq rename to purchase_id_seq")
    op.execute("alter index ix_orders_customer_id rename to ix_purchase_customer_id")
    op.rename_table("orders", "purchase")

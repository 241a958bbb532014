import sqlalchemy as sa
from alembic import op

revision, down_revision = "r11", "r10"


def upgrade():
    op.drop_constraint("fk_purchase_customer", "orders", type_="foreignkey")
    op.create_foreign_key(
        "fk_orders_customer_id_customer", "orders", "customer", ["customer_id"], ["id"], ondelete="CASCADE")


def downgrade():
    op.drop_constraint("fk_orders_customer_id_customer", "orders", type_="foreignkey")
    op.create_foreign_key("fk_purchase_customer", "orders", "customer", ["customer_id"], ["id"])

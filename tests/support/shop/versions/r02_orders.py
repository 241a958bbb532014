import sqlalchemy as sa
from alembic import op

revision, down_revision = "r02", "r01"


def upgrade():
    op.create_table(
        "purchase",
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("customer_id", sa.Integer, sa.ForeignKey("customer.id", name="fk_purchase_customer"), nullable=False),
        sa.Column("placed", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_orders"),
    )
    op.create_index("ix_purchase_customer_id", "purchase", ["customer_id"])


def downgrade():
    op.drop_index("ix_purchase_customer_id", table_name="purchase")
    op.drop_table("purchase")

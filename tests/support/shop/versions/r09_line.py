import sqlalchemy as sa
from alembic import op

revision, down_revision = "r09", "r08"


def upgrade():
    op.create_table(
        "line",
        sa.Column("order_id", sa.BigInteger, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("product_id", sa.Integer, nullable=False),
        sa.Column("quantity", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("order_id", "number", name="pk_line"),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], ondelete="CASCADE", name="fk_line_order_id_orders"),
        sa.ForeignKeyConstraint(["product_id"], ["product.id"], name="fk_line_product_id_product"),
    )
    op.execute("insert into line select id, 1, id % 50 + 1, 2 from orders where id <= 100")


def downgrade():
    op.drop_table("line")

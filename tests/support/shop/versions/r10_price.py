import sqlalchemy as sa
from alembic import op

revision, down_revision = "r10", "r09"


def upgrade():
    op.add_column("product", sa.Column("price", sa.Numeric(12, 2)))
    op.execute("update product set price = cents / 100.0")
    op.alter_column("product", "price", nullable=False)
    op.drop_column("product", "cents")
    op.create_index("ix_product_price_title", "product", [sa.text("price DESC"), "title"])


def downgrade():
    op.drop_index("ix_product_price_title", table_name="product")
    op.add_column("product", sa.Column("cents", sa.Integer))
    op.execute("update product set cents = (price * 100)::int")
    op.alter_column("product", "cents", nullable=False)
    op.drop_column("product", "price")

import sqlalchemy as sa
from alembic import op

revision, down_revision = "r07", "r06"


def upgrade():
    product = op.create_table(
        "product",
        sa.Column("id", sa.Integer),
        sa.Column("code", sa.String(20), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("cents", sa.Integer, nullable=False),
        sa.Column("weight", sa.Float),
        sa.PrimaryKeyConstraint("id", name="pk_product"),
        sa.UniqueConstraint("code", name="uq_product_code"),
    )
    op.bulk_insert(product, [{"code": f"p{i}", "title": f"Product {i}", "cents": 100 * i} for i in range(1, 51)])


def downgrade():
    op.drop_table("product")

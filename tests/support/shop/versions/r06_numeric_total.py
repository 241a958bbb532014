import sqlalchemy as sa
from alembic import op

revision, down_revision = "r06", "r05"


def upgrade():
    op.alter_column("purchase", "total", server_default=None)
    op.alter_column("purchase", "total", type_=sa.Numeric(12, 2), postgresql_using="total::numeric(12,2)")
    op.alter_column("purchase", "total", server_default="0")
    op.create_check_constraint(op.f("ck_orders_total"), "purchase", "total >= 0")


def downgrade():
    op.drop_constraint(op.f("ck_orders_total"), "purchase")
    op.alter_column("purchase", "total", server_default=None)
    op.alter_column("purchase", "total", type_=sa.Float)
    op.alter_column("purchase", "total", server_default="0")

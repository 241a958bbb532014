import sqlalchemy as sa
from alembic import op

revision, down_revision = "r04", "r03"


def upgrade():
    op.add_column("customer", sa.Column("email", sa.String(120)))
    op.add_column("customer", sa.Column("active", sa.Boolean, server_default=sa.true(), nullable=False))
    op.add_column("purchase", sa.Column("total", sa.Float, server_default="0", nullable=False))
    op.execute("update customer set email = 'c' || id || '@example.org'")


def downgrade():
    op.drop_column("purchase", "total")
    op.drop_column("customer", "active")
    op.drop_column("customer", "email")

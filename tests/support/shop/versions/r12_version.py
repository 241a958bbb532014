import sqlalchemy as sa
from alembic import op

revision, down_revision = "r12", "r11"


def upgrade():
    op.add_column("orders", sa.Column("version", sa.Integer, server_default="1", nullable=False))
    op.add_column("customer", sa.Column("joined", sa.Date))
    op.alter_column("customer", "joined", new_column_name="since")


def downgrade():
    op.drop_column("customer", "since")
    op.drop_column("orders", "version")

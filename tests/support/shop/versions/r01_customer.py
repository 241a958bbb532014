import sqlalchemy as sa
from alembic import op

revision, down_revision = "r01", None


def upgrade():
    op.create_table(
        "customer",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_customer"),
    )


def downgrade():
    op.drop_table("customer")

import sqlalchemy as sa
from alembic import op

revision, down_revision = "r05", "r04"


def upgrade():
    op.create_unique_constraint("uq_customer_email", "customer", ["email"])
    op.alter_column("customer", "name", type_=sa.String(80), existing_type=sa.String(40))


def downgrade():
    op.alter_column("customer", "name", type_=sa.String(40), existing_type=sa.String(80))
    op.drop_constraint("uq_customer_email", "customer")

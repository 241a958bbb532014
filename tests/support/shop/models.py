"""The shop's tables as the last revision leaves them."""

from datetime import date, datetime
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    metadata = sa.MetaData(naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s", "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    })


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(80))
    email: Mapped[str | None] = mapped_column(sa.String(120), unique=True)
    since: Mapped[date | None]
    active: Mapped[bool] = mapped_column(server_default=sa.true())
    orders: Mapped[list["Order"]] = relationship(back_populates="customer", cascade="all, delete-orphan")


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("customer.id", ondelete="CASCADE"), index=True)
    placed: Mapped[datetime] = mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    total: Mapped[Decimal] = mapped_column(sa.Numeric(12, 2), server_default=sa.text("0"))
    version: Mapped[int] = mapped_column(server_default=sa.text("1"))
    customer: Mapped[Customer] = relationship(back_populates="orders")
    lines: Mapped[list["Line"]] = relationship(
        back_populates="order", cascade="all, delete-orphan", order_by="Line.number")
    __table_args__ = (sa.CheckConstraint("total >= 0", name="total"),)
    __mapper_args__ = {"version_id_col": version}


class Line(Base):
    __tablename__ = "line"
    order_id: Mapped[int] = mapped_column(sa.ForeignKey("orders.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    product_id: Mapped[int] = mapped_column(sa.ForeignKey("product.id"))
    quantity: Mapped[int]
    order: Mapped[Order] = relationship(back_populates="lines")
    product: Mapped["Product"] = relationship()


class Product(Base):
    __tablename__ = "product"
    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(sa.String(20), unique=True)
    title: Mapped[str] = mapped_column(sa.Text)
    price: Mapped[Decimal] = mapped_column(sa.Numeric(12, 2))
    weight: Mapped[float | None]
    __table_args__ = (sa.Index("ix_product_price_title", sa.text("price DESC"), "title"),)

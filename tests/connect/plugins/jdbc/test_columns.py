"""Types of columns as schemas of Connect."""

from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql, postgresql

from ottla.connect import data
from ottla.connect.errors import ConnectException
from ottla.connect.plugins.jdbc.columns import read_as


def reading(kind, dialect="postgresql", numbers="none"):
    return read_as(kind, "c", dialect, numbers=numbers, grain="connect_logical", db_zone=ZoneInfo("UTC"))


@pytest.mark.parametrize(
    ("precision", "scale", "mapping", "expected"),
    [
        (4, 0, "none", data.decimal(0)), (4, 0, "precision_only", data.INT16), (9, 0, "best_fit", data.INT32),
        (18, 0, "best_fit", data.INT64), (19, 0, "best_fit", data.decimal(0)),
        (9, 2, "precision_only", data.decimal(2)),
        (9, 2, "best_fit", data.FLOAT64), (30, 2, "best_fit", data.decimal(2)),
        (30, 2, "best_fit_eager_double", data.FLOAT64), (None, None, "none", data.STRING),
    ],
)  # fmt: skip
def test_numeric_mapping_chooses_the_type_of_a_number(precision, scale, mapping, expected):
    assert reading(sql.Numeric(precision, scale), numbers=mapping)[0] == expected


def test_a_decimal_has_the_scale_of_its_column():
    assert str(reading(sql.Numeric(9, 2))[1](Decimal("3"))) == "3.00"


def test_unsigned_and_tiny_numbers_of_mysql_fit():
    assert reading(mysql.TINYINT(), "mysql")[0] == data.INT8
    assert reading(mysql.INTEGER(unsigned=True), "mysql")[0] == data.INT64
    assert reading(mysql.BIGINT(unsigned=True), "mysql")[0] == data.decimal(0)


def test_a_type_that_connect_lacks_is_refused_with_the_way_out():
    with pytest.raises(ConnectException, match=r"column c has the type INTERVAL.*that casts it"):
        reading(postgresql.INTERVAL())

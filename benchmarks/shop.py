"""A small web shop that lives for a day: the simulated source database of the demo.

Everything follows from the seed, so that the dump can be made again and checked.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from benchmarks.debezium_events import Commit, RowChange, SourceTable

NO_TIME = datetime(1970, 1, 1)
NO_MOMENT = NO_TIME.replace(tzinfo=UTC)

CUSTOMERS = SourceTable(
    "customers",
    ("id",),
    {
        "id": 0,
        "email": "",
        "full_name": "",
        "city": None,
        "is_vip": False,
        "credit": Decimal("0.00"),
        "signed_up_on": NO_TIME.date(),
        "updated_at": NO_MOMENT,
        "profile": None,
    },
    partitions=2,
)
ORDERS = SourceTable(
    "orders",
    ("id",),
    {
        "id": 0,
        "customer_id": 0,
        "sku": "",
        "quantity": 0,
        "total": Decimal("0.00"),
        "currency": "",
        "status": "",
        "note": None,
        "due_on": None,
        "placed_at": NO_MOMENT,
        "updated_at": NO_TIME,
    },
    partitions=4,
    full_identity=True,
)
PRODUCTS = SourceTable(
    "products",
    ("sku",),
    {
        "sku": "",
        "title": "",
        "price": Decimal("0.00"),
        "weight_kg": None,
        "stock": 0,
        "is_listed": False,
        "updated_at": NO_TIME,
    },
    partitions=2,
)
TABLES = (CUSTOMERS, ORDERS, PRODUCTS)

OPENING = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)
NEXT_STATUS = {"new": "paid", "paid": "packed", "packed": "shipped", "shipped": "delivered"}
GIVEN_NAMES = ("Ana", "Jörg", "Zoë", "Íñigo", "Hana", "李雷", "Fatima", "Dmitri", "Chloé", "Eşref", "Mirta", "Noah")
FAMILY_NAMES = ("Novak", "Müller", "Sato", "Peña", "Иванов", "Haddad", "Øst", "Brown", "Silva", "Çelik", "O'Neil")
CITIES = ("Köln", "Łódź", "Porto", "東京", "São Paulo", "København", "Zürich", "Lisboa", None)
GOODS = ("kettle", "lamp", "chair", "desk", "mug", "teapot", "rug", "shelf", "clock", "vase")
STYLES = ("oak", "steel", "blue", "round", "folding", "vintage", "tiny", "grand")
NOTES = (None, None, None, "leave at door", "ring twice", "Geschenk 🎁", 'quote: "fragile"')
CENT = Decimal("0.01")


class Shop:
    """The database's present content, and the transactions that change it."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._now = OPENING
        self._next_customer = 1
        self._next_order = 100_001
        self._next_product = 1
        self.rows: dict[SourceTable, dict[Any, dict[str, Any]]] = {table: {} for table in TABLES}
        self._order_counts: dict[int, int] = {}

    def open(self, customers: int, products: int, orders: int) -> None:
        """Fill the database with the rows for the connector's snapshot."""
        for _ in range(customers):
            self._apply([self._sign_up()])
        for _ in range(products):
            self._apply([self._list_product()])
        for _ in range(orders):
            self._apply(self._place_order())

    def live(self, transactions: int) -> Iterator[Commit]:
        """Run transactions, yielding each as it is committed."""
        for _ in range(transactions):
            self._now += timedelta(microseconds=self._random.randrange(200_000, 9_000_000))
            changes = self._transaction()
            self._apply(changes)
            yield Commit(self._now, tuple(changes))

    def content(self) -> Mapping[SourceTable, Sequence[Mapping[str, Any]]]:
        """Return all rows by table, in the order of their keys."""
        return {table: [rows[key] for key in sorted(rows)] for table, rows in self.rows.items()}

    def _apply(self, changes: Sequence[RowChange]) -> None:
        for change in changes:
            rows = self.rows[change.table]
            if change.before is not None:
                del rows[change.before[change.table.key[0]]]
            if change.after is not None:
                rows[change.after[change.table.key[0]]] = dict(change.after)

    def _transaction(self) -> list[RowChange]:
        dice = self._random.random()
        if dice < 0.20:
            return self._place_order()
        if dice < 0.78:
            return self._advance_order()
        if dice < 0.85:
            return self._cancel_order()
        if dice < 0.89:
            return [self._sign_up()]
        if dice < 0.95:
            return [self._change_customer()]
        if dice < 0.965:
            return self._forget_customer()
        if dice < 0.99:
            return [self._reprice_product()]
        return [self._rename_product()]

    def _sign_up(self) -> RowChange:
        number, self._next_customer = self._next_customer, self._next_customer + 1
        name = f"{self._random.choice(GIVEN_NAMES)} {self._random.choice(FAMILY_NAMES)}"
        profile = {"n": number % 10, "tags": ["new", "web"], "tier": self._random.choice("ABC")}
        row = {
            "id": number,
            "email": f"c{number}@example.com",
            "full_name": name,
            "city": self._random.choice(CITIES),
            "is_vip": self._random.random() < 0.1,
            "credit": self._amount(0, 50_000),
            "signed_up_on": self._now.date() - timedelta(days=self._random.randrange(400)),
            "updated_at": self._now,
            "profile": profile if self._random.random() < 0.4 else None,
        }
        return RowChange(CUSTOMERS, None, row)

    def _list_product(self) -> RowChange:
        number, self._next_product = self._next_product, self._next_product + 1
        row = {
            "sku": f"SKU-{number:05d}",
            "title": f"{self._random.choice(STYLES)} {self._random.choice(GOODS)}",
            "price": self._amount(199, 99_900),
            "weight_kg": round(self._random.random() * 20, 3) if self._random.random() < 0.9 else None,
            "stock": self._random.randrange(50, 5000),
            "is_listed": True,
            "updated_at": self._now.replace(tzinfo=None),
        }
        return RowChange(PRODUCTS, None, row)

    def _place_order(self) -> list[RowChange]:
        """An order takes its goods from the stock in the same transaction."""
        number, self._next_order = self._next_order, self._next_order + 1
        product = self._any(PRODUCTS)
        customer = self._any(CUSTOMERS)["id"]
        quantity = self._random.randrange(1, 5)
        self._order_counts[customer] = self._order_counts.get(customer, 0) + 1
        order = {
            "id": number,
            "customer_id": customer,
            "sku": product["sku"],
            "quantity": quantity,
            "total": quantity * product["price"],
            "currency": self._random.choice(("EUR", "EUR", "EUR", "PLN", "CHF")),
            "status": "new",
            "note": self._random.choice(NOTES),
            "due_on": None,
            "placed_at": self._now,
            "updated_at": self._now.replace(tzinfo=None),
        }
        return [
            RowChange(ORDERS, None, order),
            self._updated(PRODUCTS, product, stock=max(product["stock"] - quantity, 0)),
        ]

    def _advance_order(self) -> list[RowChange]:
        """One to three orders go a step further, as a warehouse works through them."""
        chosen: dict[int, RowChange] = {}
        for _ in range(self._random.randrange(1, 4)):
            order = self._any(ORDERS)
            status = NEXT_STATUS.get(order["status"], "archived")
            due_on = self._now.date() + timedelta(days=3) if status == "shipped" else order["due_on"]
            chosen[order["id"]] = self._updated(ORDERS, order, status=status, due_on=due_on)
        return list(chosen.values())

    def _cancel_order(self) -> list[RowChange]:
        order = self._any(ORDERS)
        self._order_counts[order["customer_id"]] -= 1
        return [RowChange(ORDERS, order, None)]

    def _change_customer(self) -> RowChange:
        customer = self._any(CUSTOMERS)
        if self._random.random() < 0.5:
            return self._updated(CUSTOMERS, customer, city=self._random.choice(CITIES))
        credit = customer["credit"] + self._amount(-20_000, 20_000)
        return self._updated(CUSTOMERS, customer, credit=credit, is_vip=credit > 400)

    def _forget_customer(self) -> list[RowChange]:
        """A customer without orders asks to be deleted; with orders the address alone goes."""
        customer = self._any(CUSTOMERS)
        if self._order_counts.get(customer["id"], 0) == 0:
            return [RowChange(CUSTOMERS, customer, None)]
        return [self._updated(CUSTOMERS, customer, city=None, profile=None)]

    def _reprice_product(self) -> RowChange:
        product = self._any(PRODUCTS)
        return self._updated(PRODUCTS, product, price=self._amount(199, 99_900), is_listed=self._random.random() < 0.95)

    def _rename_product(self) -> RowChange:
        """The primary key itself changes."""
        product = self._any(PRODUCTS)
        number, self._next_product = self._next_product, self._next_product + 1
        return self._updated(PRODUCTS, product, sku=f"SKU-{number:05d}")

    def _any(self, table: SourceTable) -> dict[str, Any]:
        """Return one of the present rows, each with the same chance."""
        keys = list(self.rows[table])
        return self.rows[table][keys[self._random.randrange(len(keys))]]

    def _updated(self, table: SourceTable, row: Mapping[str, Any], **values: Any) -> RowChange:
        zone = row["updated_at"].tzinfo
        return RowChange(table, row, {**row, **values, "updated_at": self._now.replace(tzinfo=zone)})

    def _amount(self, low_cents: int, high_cents: int) -> Decimal:
        return self._random.randrange(low_cents, high_cents) * CENT

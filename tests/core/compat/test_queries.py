"""The private parts of querysets, tested on real querysets."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection, connections, models
from django.db.models import Count, F, FilteredRelation, Window
from django.db.models.functions import Left, RowNumber
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django.core.compat.queries import (
    PreparedList,
    PreparedQuery,
    QuerySetHooks,
    first_rows,
    forget_rows,
    gives_instances,
    gives_values_as_django,
    has_been_read,
    has_default_order,
    has_every_row,
    has_one_table,
    has_plain_rows,
    is_iterated_by_django,
    is_sliced_or_combined,
    mark_unreadable,
    may_double_rows,
    names_database,
    not_reversed,
    picks_rows,
    prepare_lookup,
    select_from,
    unlock,
    without_slice,
    write_to,
)
from mcp_django.models import AccessToken
from tests.shop.models import Book, CheapProduct, Parcel, Product, Tag

# Each depends on the versions of the packages that it is about.
pytestmark = pytest.mark.every_case

_ALL = Permission.objects.order_by()
_NUMBERED = _ALL.annotate(number=Window(RowNumber(), partition_by="content_type"))


class _Renaming(models.QuerySet[Permission, Permission]):
    """As that of django-modeltranslation."""

    def _values(self, *fields: str, **expressions: Any) -> Any:
        return super()._values(*fields, **expressions)  # type: ignore[misc]


def _iterated_otherwise() -> Any:
    found: Any = _ALL.all()
    found._iterable_class = type("Proxied", (found._iterable_class,), {})
    return found


@pytest.mark.parametrize(
    ("function", "true", "false"),
    [
        (
            has_default_order,
            [Permission.objects.all(), Permission.objects.filter(pk=1)],
            [_ALL, Permission.objects.order_by("pk"), Permission.objects.all()[:3], Tag.objects.all()],
        ),
        (
            is_sliced_or_combined,
            [_ALL[:3], _ALL[3:], _ALL.union(_ALL), _ALL.difference(_ALL)],
            [_ALL, _ALL.filter(pk=1), _ALL.distinct()],
        ),
        (
            has_plain_rows,
            [_ALL, _ALL.filter(content_type__model="flight"), _ALL.distinct()],
            [_ALL[:3], _ALL.union(_ALL), _ALL.distinct("codename"), _ALL.values("pk"), _ALL.values_list("pk")],
        ),
        (
            has_one_table,
            [_ALL, _ALL.filter(codename="x"), _ALL.filter(content_type__id=1), _ALL.select_related("content_type")],
            [
                _ALL.filter(content_type__model="flight"),
                _ALL.annotate(twice=F("pk") * 2),
                _ALL.distinct(),
                _ALL.extra(where=["1 = 1"], select={"one": "1"}),
                _ALL.values("content_type").annotate(n=models.Count("pk")),
            ],
        ),
        (
            may_double_rows,
            [
                Group.objects.filter(permissions__codename="x"),
                ContentType.objects.filter(permission__codename="x"),
                _ALL.filter(group__name="x"),
            ],
            [
                _ALL,
                _ALL.filter(content_type__model="flight"),
                Group.objects.filter(permissions__codename="x").distinct(),
                Group.objects.values("name").annotate(n=models.Count("permissions")),
            ],
        ),
        (
            picks_rows,
            [_ALL.distinct("codename"), _NUMBERED.filter(number=1), _ALL.filter(pk=1) & _NUMBERED.filter(number=1)],
            [_ALL, _ALL.distinct(), _NUMBERED, _ALL.filter(codename="x")],
        ),
        (
            has_every_row,
            [
                _ALL,
                _ALL.order_by("pk"),
                _ALL.annotate(twice=F("pk") * 2),
                _ALL.select_related("content_type"),
                _ALL.distinct(),
                _ALL.annotate(model=F("content_type__model")),
                _ALL.annotate(users=Count("user")),
            ],
            [
                _ALL.filter(pk=1),
                _ALL.exclude(pk=1),
                _ALL.none(),
                _ALL[:3],
                _ALL.distinct("codename"),
                _ALL.union(_ALL),
                _ALL.extra(where=["1 = 0"]),
                _ALL.annotate(
                    of_flight=FilteredRelation("content_type", condition=models.Q(content_type__model="flight")),
                    model=F("of_flight__model"),
                ),
            ],
        ),
        (names_database, [_ALL.using("other"), _ALL.using("default")], [_ALL, _ALL.filter(pk=1)]),
        (is_iterated_by_django, [_ALL, _ALL.filter(pk=1)], [_ALL.values("pk"), _iterated_otherwise()]),
        (gives_values_as_django, [_ALL, _ALL.values_list("pk")], [_Renaming(Permission)]),
        (
            gives_instances,
            [_ALL, _ALL.filter(pk=1), _ALL.annotate(twice=F("pk") * 2)],
            [
                _ALL.values("pk"),
                _ALL.values_list("pk"),
                _ALL.values_list("pk", flat=True),
                Session.objects.dates("expire_date", "day"),
            ],
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_the_properties_of_querysets(function: Callable[[Any], bool], true: list[Any], false: list[Any]) -> None:
    assert [str(queryset.query) for queryset in true if not function(queryset)] == []
    assert [str(queryset.query) for queryset in false if function(queryset)] == []


def test_unlock_takes_select_for_update_away(transactional_db: None) -> None:
    queryset = Tag.objects.select_for_update()

    unlock(queryset)

    assert list(queryset) == []  # Outside of a transaction a lock is refused.
    assert "FOR UPDATE" not in str(queryset.query)


class _Router:
    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "other"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


@override_settings(DATABASE_ROUTERS=["tests.core.compat.test_queries._Router"])
def test_write_to_chooses_the_database_that_is_written_to() -> None:
    queryset = Tag.objects.all()
    before = queryset.db

    write_to(queryset)

    assert (before, queryset.db, queryset.filter(pk=1).db) == ("other", "default", "default")


def test_forget_rows_has_them_read_anew(db: None) -> None:
    queryset = Tag.objects.all()
    before = len(queryset)
    Tag.objects.create(name="new")
    kept = len(queryset)

    forget_rows(queryset)

    assert (before, kept, len(queryset)) == (0, 0, 1)


class _Hooked(QuerySetHooks, models.QuerySet[Any, Any]):
    mark = ""
    _carried = ("mark",)
    deleted: list[int] = []

    def _delete_at_once(self, using: str | None) -> int:
        number = super()._delete_at_once(using)
        self.deleted.append(number)
        return number


def test_query_set_hooks_carry_attributes_over_to_clones() -> None:
    marked = _Hooked(Tag)
    marked.mark = "mine"

    clones = [marked.filter(pk=1), marked.all().order_by("pk"), marked.using("other"), marked._copied()]

    assert [clone.mark for clone in clones] == ["mine"] * 4
    assert all(clone is not marked for clone in clones)
    assert _Hooked(Tag).mark == ""


def test_query_set_hooks_hear_of_a_delete_by_one_statement(db: None) -> None:
    _Hooked.deleted.clear()
    for name in "ab":
        Session.objects.create(session_key=name, session_data="", expire_date=timezone.now())

    number, _ = _Hooked(Session).filter(session_key__in="ab").delete()

    assert (number, _Hooked.deleted) == (2, [2])
    assert connections["default"].in_atomic_block
    assert not Session.objects.exists()


def test_what_a_field_raises_for_the_value_of_a_lookup() -> None:
    field = Parcel._meta.get_field("size")

    prepare_lookup(field, "exact", "1")
    for lookup, value in (("exact", "x"), ("nope", "1")):
        with pytest.raises((ValueError, TypeError)):
            prepare_lookup(field, lookup, value)


@pytest.fixture
def unread(db: None) -> Parcel:
    """A parcel whose size the field cannot read, beside one that it can."""
    Parcel.objects.create(code="P1", size="1")
    parcel = Parcel.objects.create(code="P2", size="2")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE shop_parcel SET size = 'x' WHERE code = 'P2'")
    return parcel


def test_a_value_that_cannot_be_read_is_marked(unread: Parcel) -> None:
    mark = object()
    values = Parcel.objects.order_by("code").annotate(same=F("size")).values_list("code", "size", "same")

    with pytest.raises(ValueError, match="no size"):
        list(values)
    [first, second] = mark_unreadable(values, mark)

    assert (first[0], str(first[1]), str(first[2])) == ("P1", "size 1", "size 1")
    assert second == ("P2", mark, mark)
    with pytest.raises(ValueError, match="no size"):
        list(values.all())


def test_an_error_of_the_database_within_a_converter_is_raised(unread: Parcel, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*args: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(type(Parcel._meta.get_field("size")), "from_db_value", ask)

    with pytest.raises(OperationalError):
        list(mark_unreadable(Parcel.objects.values_list("size"), object()))


@pytest.mark.every_database
def test_rows_in_the_place_of_a_table(db: None) -> None:
    Tag.objects.bulk_create(Tag(name=name) for name in ("a1", "a2", "b1"))
    numbered = Tag.objects.annotate(
        first=Left("name", 1), number=Window(RowNumber(), partition_by=[Left("name", 1)], order_by=F("name").desc())
    )

    rows, columns = select_from(numbered.filter(name__gt="a1"), ["first", "number"])
    twice, again = select_from(rows.annotate(**columns), ["first"])
    nothing, none = select_from(numbered.filter(pk__in=[]), ["number"])

    groups = rows.annotate(**columns).values("first").annotate(last=models.Max(columns["number"])).order_by("first")
    assert list(groups) == [{"first": "a", "last": 1}, {"first": "b", "last": 1}]
    assert twice.aggregate(count=models.Count(again["first"], distinct=True)) == {"count": 2}
    assert nothing.aggregate(count=models.Count("*"), most=models.Max(none["number"])) == {"count": 0, "most": None}


def test_not_reversed_leaves_a_later_order_as_it_is() -> None:
    for queryset in (_ALL.reverse(), _ALL.order_by("name").reverse(), _ALL, _ALL.order_by("name")):
        assert str(not_reversed(queryset).order_by("codename").query) == str(_ALL.order_by("codename").query)


# Queries that are compiled once, compared with the same ones through the ORM.

_TOKENS = AccessToken.objects.select_related("user").order_by()
_HASH, _LINE, _EXPIRES = (AccessToken._meta.get_field(name) for name in ("hash", "line", "expires_at"))


def _values(instance: models.Model) -> dict[str, Any]:
    return {field.attname: getattr(instance, field.attname) for field in instance._meta.concrete_fields}


@pytest.fixture
def token(db: None) -> AccessToken:
    user = User.objects.create_user("ada")
    return AccessToken.objects.create_token(user=user, scopes=["read", "actions"], addresses=["192.0.2.0/24"])[0]


@pytest.fixture
def of_hash() -> PreparedQuery[Any]:
    return PreparedQuery(lambda digest: _TOKENS.filter(hash=digest), _HASH)


@pytest.mark.every_database
def test_instances_are_those_of_the_queryset(token: AccessToken, of_hash: Any, django_assert_num_queries: Any) -> None:

    with django_assert_num_queries(1):
        [found] = of_hash.fetch("default", token.hash)
        user = found.user

    expected = _TOKENS.get(hash=token.hash)
    assert (type(found), _values(found)) == (AccessToken, _values(expected))
    assert (type(user), _values(user)) == (User, _values(expected.user))
    assert (found._state.db, found._state.adding) == ("default", False)
    assert not found.get_deferred_fields()


@pytest.mark.every_database
def test_what_a_caller_does_with_a_row_is_not_seen_by_the_next_one(token: AccessToken, of_hash: Any) -> None:
    AccessToken.objects.update(limits={"calls": "60/min"})
    [found] = of_hash.fetch("default", token.hash)

    found.scopes.append("more")
    found.limits["calls"] = "1/min"
    found.name = found.user.username = "changed"

    [again] = of_hash.fetch("default", token.hash)
    assert (again.scopes, again.limits) == (["read", "actions"], {"calls": "60/min"})
    assert (again.name, again.user.username) == ("", "ada")


@pytest.mark.every_database
def test_a_field_of_the_project_converts_its_value_each_time(db: None) -> None:
    Parcel.objects.create(size=5)
    prepared = PreparedQuery(lambda code: Parcel.objects.filter(code=code), Parcel._meta.get_field("code"))

    [one], [other] = prepared.fetch("default", "P"), prepared.fetch("default", "P")

    assert str(one.size) == str(other.size) == "size 5"
    assert one.size is not other.size


@pytest.mark.every_database
def test_a_row_that_has_changed_is_seen_at_once_and_each_call_has_its_own_values(
    token: AccessToken, of_hash: Any
) -> None:
    for scopes in (["read"], ["actions"], ["read"]):
        AccessToken.objects.update(scopes=scopes)
        assert [found.scopes for found in of_hash.fetch("default", token.hash)] == [scopes]
    other = AccessToken.objects.create_token(user=token.user)[0]
    assert [of_hash.fetch("default", value) for value in (token.hash, other.hash, "none")] == [[token], [other], []]


@pytest.mark.every_database
def test_values_are_prepared_as_those_of_their_fields(token: AccessToken) -> None:
    AccessToken.objects.create_token(user=token.user, expires_at=timezone.now() + timedelta(days=50))
    prepared = PreparedQuery(lambda line, now: _TOKENS.filter(line=line, expires_at__gt=now), _LINE, _EXPIRES)

    for line in (token.line, str(token.line)):
        assert prepared.fetch("default", line, timezone.now()) == [token]
        assert prepared.fetch("default", line, timezone.now() + timedelta(days=100)) == []


@pytest.mark.every_database
def test_a_value_stands_in_each_place_that_names_it(token: AccessToken) -> None:
    group = Group.objects.create(name="readers")
    own, of_group = Permission.objects.order_by("pk")[:2]
    token.user.user_permissions.add(own)
    token.user.groups.add(group)
    group.permissions.add(of_group)
    names = Permission.objects.order_by().values_list("codename")

    def make(user: Any) -> models.QuerySet[Any, Any]:
        return names.filter(user=user).union(names.filter(group__user=user), all=True).order_by()

    prepared = PreparedQuery(make, User._meta.pk)

    assert sorted(prepared.fetch("default", token.user.pk)) == sorted([(own.codename,), (of_group.codename,)])
    assert prepared.fetch("default", token.user.pk + 1) == []


@pytest.mark.every_database
def test_the_sql_is_written_once_for_all_threads(token: AccessToken) -> None:
    made: list[int] = []

    def make(digest: Any) -> models.QuerySet[AccessToken]:
        made.append(1)
        return _TOKENS.filter(hash=digest)

    prepared = PreparedQuery(make, _HASH)
    with CaptureQueriesContext(connection) as captured:
        for _ in range(3):
            prepared.fetch("default", token.hash)
    sql = {query["sql"] for query in captured.captured_queries}

    assert (len(captured), len(sql), made) == (3, 1, [1])


@pytest.mark.every_database
def test_what_was_compiled_outlives_the_thread_that_compiled_it(transactional_db: None) -> None:
    token = AccessToken.objects.create_token(user=User.objects.create_user("ada"))[0]
    prepared = PreparedQuery(lambda digest: _TOKENS.filter(hash=digest), _HASH)

    def work() -> None:
        found.append(prepared.fetch("default", token.hash))
        connection.close()

    found: list[list[AccessToken]] = []
    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert [*found, prepared.fetch("default", token.hash)] == [[token]] * 3


@pytest.mark.every_database
def test_prepared_list_asks_for_many_values_with_few_statements(db: None) -> None:
    names = [f"group {position}" for position in range(251)]
    Group.objects.bulk_create(Group(name=name) for name in [*names, "another"])
    prepared = PreparedList(
        lambda values: Group.objects.order_by().filter(name__in=values), Group._meta.get_field("name")
    )

    for number, statements in ((251, 2), (250, 1), (11, 1), (10, 1), (1, 1), (0, 0)):
        with CaptureQueriesContext(connection) as captured:
            found = [group.name for group in prepared.fetch("default", names[:number])]
        assert sorted(found) == sorted(names[:number])
        assert len(captured) == statements, number


# The first rows of a table, by SQL that is written once.


class _Silent(models.QuerySet[Product]):
    """Replaces what Django does when rows are read."""

    def _fetch_all(self) -> None:
        self._result_cache: list[Any] = []


class _Named(models.QuerySet[Product]):
    """Adds a method of the project's own."""

    def cheap(self) -> models.QuerySet[Product]:
        return self.filter(price__lt=5)


_PRODUCTS = Product.objects.order_by()
_NAMES = ("id", "name", "price", "launched", "details", "lead_time", "sku")


@pytest.mark.every_database
def test_the_first_rows_are_those_of_the_queryset(db: None) -> None:
    for number in range(4):
        launched = timezone.now().date() - timedelta(days=number)
        more = {"launched": launched, "details": {"n": [number]}, "lead_time": timedelta(hours=number)}
        Product.objects.create(name=f"p{number % 2}", price=number, **more)
    Product.objects.create(name="none")

    for kind, order in itertools.product((_Named, models.QuerySet), (("name", "id"), ("-price", "-id"), ("-id",))):
        prepared = first_rows(kind(Product), _NAMES, order, 3)
        assert prepared is not None
        assert prepared.fetch("default") == list(_PRODUCTS.order_by(*order).values_list(*_NAMES)[:3])


@pytest.mark.every_database
def test_the_first_rows_are_read_anew_by_the_same_sql(db: None) -> None:
    prepared = first_rows(_PRODUCTS, ["id", "name"], ["id"], 3)
    assert prepared is not None and prepared.fetch("default") == []
    row = Product.objects.create(name="first")

    assert first_rows(Product.objects.all(), ["id", "name"], ["id"], 3) is prepared
    assert prepared.fetch("default") == [(row.pk, "first")]

    Product.objects.update(name="renamed")
    assert prepared.fetch("default") == [(row.pk, "renamed")]


def test_of_other_querysets_and_names_django_writes_the_sql() -> None:
    querysets: list[Any] = [
        _PRODUCTS.filter(name="x"), _PRODUCTS.exclude(name="x"), _PRODUCTS.none(), _PRODUCTS.distinct(), _PRODUCTS[:3],
        _PRODUCTS.union(_PRODUCTS), _PRODUCTS.extra(where=["1 = 0"]), Product.objects.extra(tables=["shop_tag"]),
        _PRODUCTS.annotate(twice=F("stock") * 2), _PRODUCTS.filter(tags__name="x"), _PRODUCTS.select_for_update(),
        _PRODUCTS.values("id"), _Silent(Product), Book.objects.all(), CheapProduct.objects.all(),
    ]  # fmt: skip
    names = [(["id", "tags"], ["id"]), (["pk"], ["id"]), (["id", "_mcp_1"], ["id"]), (["id"], ["tags__name"])]

    for queryset in querysets:
        assert first_rows(queryset, ["id", "name"], ["id"], 3) is None, str(queryset.query)
    for some, order in names:
        assert first_rows(_PRODUCTS, some, order, 3) is None, some


def test_a_slice_is_told_apart_from_the_rows_that_it_is_taken_of(db: None) -> None:
    for name in "abc":
        Group.objects.create(name=name)

    whole, limits = without_slice(Group.objects.order_by("name")[1:2])

    assert ([group.name for group in whole], limits) == (["a", "b", "c"], slice(1, 2))
    assert without_slice(Group.objects.all())[1] == slice(0, None)


def test_a_queryset_that_holds_its_rows_is_known(db: None) -> None:
    read = Group.objects.all()
    list(read)

    assert has_been_read(read)
    assert not has_been_read(Group.objects.all())

"""The API of the workshop: each operation is of a kind of its own.

Owners see and change their own rows alone, staff all of them. What an owner may not see is answered as missing.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.db.models import Model, QuerySet, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from ninja import (
    Body,
    Field,
    File,
    FilterLookup,
    FilterSchema,
    Form,
    Header,
    ModelSchema,
    NinjaAPI,
    PatchDict,
    Query,
    Router,
    Schema,
    Status,
    UploadedFile,
)
from ninja.errors import HttpError
from ninja.pagination import LimitOffsetPagination, PageNumberPagination, paginate
from ninja.security import APIKeyHeader, HttpBearer, django_auth, django_auth_is_staff

from tests.api.ninja_project.models import Attachment, Item, Order, OrderLine, Shelf

User = get_user_model()

api = NinjaAPI(title="Workshop", description="Items on shelves, and orders of them.")


class OutOfStock(Exception):
    """More was asked for than there is."""

    def __init__(self, left: int) -> None:
        self.left = left
        super().__init__(f"only {left} left")


@api.exception_handler(OutOfStock)
def out_of_stock(request: HttpRequest, error: OutOfStock) -> HttpResponse:
    return api.create_response(request, {"detail": str(error), "left": error.left}, status=409)


@api.exception_handler(ValidationError)
def not_valid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """What a model refuses is answered by the names of its fields."""
    return api.create_response(request, {"detail": error.message_dict}, status=422)


def visible(rows: QuerySet[Any], user: AbstractUser) -> QuerySet[Any]:
    """The rows that the user may see, in the order in which they were made."""
    rows = rows.order_by("pk")
    return rows if user.is_staff else rows.filter(owner=user)


def own(model: type[Model], request: HttpRequest, **lookup: Any) -> Any:
    """The one row that the caller may see, or 404."""
    return get_object_or_404(visible(model._default_manager.all(), request.auth), **lookup)


# Schemas


class Error(Schema):
    detail: str


class ShelfOut(ModelSchema):
    class Meta:
        model = Shelf
        fields = ["id", "name", "colour", "width"]


class ShelfIn(Schema):
    name: str = Field(max_length=50)
    colour: Literal["red", "blue"]
    width: int = Field(ge=1, le=1000)


class ItemOut(Schema):
    id: int
    owner: str = Field(alias="owner.username")
    shelf_id: int | None
    name: str
    slug: str
    price: Decimal
    stock: int
    done: bool
    due: date | None
    checked_at: datetime | None


class ItemIn(Schema):
    name: str = Field(min_length=1, max_length=80, description="What the item is called.")
    slug: str = Field(max_length=50, pattern=r"^[-a-z0-9_]+$")
    price: Decimal = Field(Decimal(0), ge=0, max_digits=8, decimal_places=2)
    stock: int = Field(0, ge=0, le=100_000)
    done: bool = False
    due: date | None = None
    shelf_id: int | None = None


class ItemPatch(Schema):
    """Each field may be left out."""

    name: str | None = Field(None, min_length=1, max_length=80)
    price: Decimal | None = Field(None, ge=0, max_digits=8, decimal_places=2)
    stock: int | None = Field(None, ge=0, le=100_000)
    done: bool | None = None
    due: date | None = None


class ItemFilters(FilterSchema):
    search: Annotated[str | None, FilterLookup(["name__icontains", "slug__icontains"])] = None
    done: bool | None = None
    min_price: Annotated[Decimal | None, FilterLookup("price__gte")] = None
    due_before: Annotated[date | None, FilterLookup("due__lt")] = None


class Ordering(Schema):
    order: Literal["price", "-price", "id"] = "id"
    ids: list[int] = Field([], description="These items alone.")


class Address(Schema):
    street: str = Field(max_length=80)
    city: str = Field(max_length=80)


class Line(Schema):
    text: str = Field(max_length=80)
    amount: int = Field(ge=1, le=1000)


class OrderIn(Schema):
    number: UUID
    customer: str = Field(max_length=80)
    address: Address
    lines: list[Line] = Field(min_length=1, max_length=5)


class OrderOut(Schema):
    number: UUID
    customer: str
    address: Address
    lines: list[Line]

    @staticmethod
    def resolve_address(order: Order) -> dict[str, str]:
        return {"street": order.street, "city": order.city}

    @staticmethod
    def resolve_lines(order: Order) -> list[OrderLine]:
        return list(order.lines.order_by("pk"))


class Feedback(Schema):
    subject: str = Field(max_length=40)
    stars: int = Field(3, ge=1, le=5)
    topics: list[Literal["price", "service", "other"]] = []


class Mail(Schema):
    to: str = Field(pattern=r"^[^@\s]+@[^@\s]+$")
    text: str = Field(min_length=1, max_length=200)


class Notice(Schema):
    text: str = Field(max_length=200)


class AttachmentOut(Schema):
    title: str
    file_name: str
    size: int


# Items


items = Router(tags=["items"], auth=django_auth)


@items.get("/", response=list[ItemOut])
def list_items(request: HttpRequest, filters: Query[ItemFilters], ordering: Query[Ordering]) -> QuerySet[Item]:
    """The items of the caller, filtered."""
    found = filters.filter(visible(Item.objects.select_related("owner"), request.auth))
    if ordering.ids:
        found = found.filter(pk__in=ordering.ids)
    return found.order_by(ordering.order, "pk")


@items.post("/", response={201: ItemOut})
def create_item(request: HttpRequest, data: ItemIn) -> Status[Item]:
    if data.shelf_id is not None:
        own(Shelf, request, pk=data.shelf_id)
    item = Item(owner=request.auth, **data.dict())
    item.full_clean()
    item.save()
    return Status(201, item)


@items.post("/bulk", response={201: list[ItemOut]})
def create_items(request: HttpRequest, data: list[ItemIn]) -> Status[list[Item]]:
    """Several items at once: the body is a list. None is made where one is not valid."""
    made = [Item(owner=request.auth, **one.dict(exclude={"shelf_id"})) for one in data]
    for item in made:
        item.full_clean()
    for item in made:
        item.save()
    return Status(201, made)


@items.get("/paged", response=list[ItemOut])
@paginate(LimitOffsetPagination, max_limit=50)
def paged_items(request: HttpRequest, done: bool | None = None) -> QuerySet[Item]:
    """The items of the caller by limit and offset."""
    found = visible(Item.objects.select_related("owner"), request.auth)
    return found if done is None else found.filter(done=done)


@items.get("/numbered", response=list[ItemOut])
@paginate(PageNumberPagination, page_size=2)
def numbered_items(request: HttpRequest) -> QuerySet[Item]:
    """The items of the caller in numbered pages of two."""
    return visible(Item.objects.select_related("owner"), request.auth)


@items.get("/key/{uuid:key}", response=ItemOut)
def item_by_key(request: HttpRequest, key: UUID) -> Item:
    return own(Item, request, key=key)


@items.get("/{int:item_id}", response=ItemOut)
def get_item(request: HttpRequest, item_id: int) -> Item:
    return own(Item, request, pk=item_id)


@items.put("/{int:item_id}", response=ItemOut)
def replace_item(request: HttpRequest, item_id: int, data: ItemIn) -> Item:
    item = own(Item, request, pk=item_id)
    if data.shelf_id is not None:
        own(Shelf, request, pk=data.shelf_id)
    for name, value in data.dict().items():
        setattr(item, name, value)
    item.full_clean()
    item.save()
    return item


@items.patch("/{int:item_id}", response=ItemOut)
def change_item(request: HttpRequest, item_id: int, data: ItemPatch) -> Item:
    """Changes the fields that the body has. A null is a value only where a field may be empty."""
    item = own(Item, request, pk=item_id)
    for name, value in data.dict(exclude_unset=True).items():
        if value is not None or name == "due":
            setattr(item, name, value)
    item.save()
    return item


@items.delete("/{int:item_id}", response={204: None})
def delete_item(request: HttpRequest, item_id: int) -> Status[None]:
    own(Item, request, pk=item_id).delete()
    return Status(204, None)


@items.get("/{int:item_id}/state", response={200: ItemOut, 404: Error})
def item_state(request: HttpRequest, item_id: int) -> Status[Any]:
    """The item, or an error of the schema that the operation declares."""
    item = visible(Item.objects.all(), request.auth).filter(pk=item_id).first()
    return Status(404, {"detail": f"no item {item_id}"}) if item is None else Status(200, item)


@items.post("/{int:item_id}/take", response=ItemOut)
def take_item(request: HttpRequest, item_id: int, amount: int = Query(1, ge=1, le=1000)) -> Item:
    """Takes some from the stock. The amount is in the query, though it is a POST."""
    item = own(Item, request, pk=item_id)
    if amount > item.stock:
        raise OutOfStock(item.stock)
    item.stock -= amount
    item.save()
    return item


@items.post("/{int:item_id}/finish", response=ItemOut)
def finish_item(request: HttpRequest, item_id: int) -> Item:
    """Has no body, and refuses what is finished already."""
    item = own(Item, request, pk=item_id)
    if item.done:
        raise HttpError(400, "The item is finished already.")
    item.done = True
    item.save()
    return item


@items.post("/{int:item_id}/rename", response=ItemOut, deprecated=True)
def rename_item(
    request: HttpRequest, item_id: int, name: str = Body(..., max_length=80), shout: bool = Body(False)
) -> Item:
    """Two parameters of the body, without a schema of their own."""
    item = own(Item, request, pk=item_id)
    item.name = name.upper() if shout else name
    item.save()
    return item


@items.api_operation(["GET", "POST"], "/{int:item_id}/visit")
def visit_item(request: HttpRequest, item_id: int) -> dict[str, Any]:
    """One function for two methods: POST adds one to the stock, GET does not."""
    item = own(Item, request, pk=item_id)
    if request.method == "POST":
        item.stock += 1
        item.save()
    return {"method": request.method, "stock": item.stock}


@items.get("/{slug:slug}", response=ItemOut)
def item_by_slug(request: HttpRequest, slug: str) -> Item:
    """Below the same prefix as the number of an item."""
    return own(Item, request, slug=slug)


# Shelves: the key has no converter in the path, so that ninja itself refuses what is no number.


shelves = Router(tags=["shelves"], auth=django_auth)


@shelves.get("", response=list[ShelfOut], operation_id="shelves", summary="All shelves")
def list_shelves(request: HttpRequest) -> QuerySet[Shelf]:
    return visible(Shelf.objects.all(), request.auth)


@shelves.get("/{shelf_id}", response=ShelfOut)
def get_shelf(request: HttpRequest, shelf_id: int) -> Shelf:
    return own(Shelf, request, pk=shelf_id)


@shelves.patch("/{shelf_id}", response=ShelfOut)
def change_shelf(request: HttpRequest, shelf_id: int, data: PatchDict[ShelfIn]) -> Shelf:
    """The body is a dict of what was sent alone."""
    shelf = own(Shelf, request, pk=shelf_id)
    for name, value in data.items():
        if value is not None:
            setattr(shelf, name, value)
    shelf.save()
    return shelf


@shelves.delete("/{shelf_id}", auth=django_auth_is_staff, response={204: None, 409: Error})
def delete_shelf(request: HttpRequest, shelf_id: int) -> Status[Any]:
    """Of staff alone, and only where nothing is on the shelf."""
    shelf = own(Shelf, request, pk=shelf_id)
    if shelf.items.exists():
        return Status(409, {"detail": "The shelf is not empty."})
    shelf.delete()
    return Status(204, None)


# Orders


orders = Router(tags=["orders"], auth=django_auth)


@orders.get("/", response=list[OrderOut])
@paginate(PageNumberPagination)
def list_orders(request: HttpRequest, customer: str | None = None) -> QuerySet[Order]:
    found = visible(Order.objects.all(), request.auth)
    return found.filter(customer__icontains=customer) if customer else found


@orders.post("/", response={201: OrderOut, 409: Error})
def create_order(request: HttpRequest, data: OrderIn) -> Status[Any]:
    """A schema within the schema, and a list of others."""
    if Order.objects.filter(number=data.number).exists():
        return Status(409, {"detail": "There is such an order."})
    order = Order.objects.create(owner=request.auth, number=data.number, customer=data.customer, **data.address.dict())
    for line in data.lines:
        order.lines.create(**line.dict())
    return Status(201, order)


@orders.get("/{uuid:number}", response=OrderOut)
def get_order(request: HttpRequest, number: UUID) -> Order:
    return own(Order, request, number=number)


# The desk: forms, files and what answers in a form of its own.


desk = Router(tags=["desk"])


@desk.post("/feedback", auth=django_auth)
def feedback(request: HttpRequest, data: Form[Feedback], name: str = Form("nobody")) -> dict[str, Any]:
    """The fields of a form, some by a schema and one by itself."""
    return {"name": name, **data.dict()}


@desk.post("/upload", auth=django_auth, response={201: AttachmentOut})
def upload(request: HttpRequest, file: File[UploadedFile], title: str = Form(..., max_length=80)) -> Status[Attachment]:
    made = Attachment.objects.create(owner=request.auth, title=title, file_name=file.name, size=file.size)
    return Status(201, made)


@desk.post("/uploads", auth=django_auth, response={201: list[AttachmentOut]})
def uploads(request: HttpRequest, files: File[list[UploadedFile]]) -> Status[list[Attachment]]:
    made = [
        Attachment.objects.create(owner=request.auth, title="", file_name=file.name, size=file.size) for file in files
    ]
    return Status(201, made)


@desk.post("/mail", auth=django_auth, response={202: None})
def mail(request: HttpRequest, data: Mail) -> Status[None]:
    send_mail(f"A message of {request.auth.username}", data.text, "workshop@example.com", [data.to])
    return Status(202, None)


class Account(Schema):
    name: str
    api_key: str


@desk.get("/account", auth=django_auth, response=Account)
def account(request: HttpRequest) -> dict[str, str]:
    return {"name": request.auth.username, "api_key": "secret"}


@desk.get("/ping")
def ping(request: HttpRequest) -> dict[str, bool]:
    """For anyone."""
    return {"pong": True}


@desk.get("/greeting", auth=None)
def greeting(request: HttpRequest, name: str = "you") -> HttpResponse:
    """For anyone, and in plain text."""
    return HttpResponse(f"Hello {name}", content_type="text/plain")


@desk.get("/old", auth=None)
def old(request: HttpRequest) -> HttpResponse:
    """Sends its caller elsewhere."""
    return HttpResponseRedirect("/api/desk/ping")


@desk.get("/hidden", auth=django_auth, include_in_schema=False)
def hidden(request: HttpRequest) -> dict[str, str]:
    """Not in the documentation of the API."""
    return {"hidden": request.auth.username}


@desk.get("/language", auth=None)
def language(request: HttpRequest, accept_language: str = Header("none")) -> dict[str, str]:
    """A parameter that is a header."""
    return {"language": accept_language}


@desk.put("/divide/{int:number}", auth=django_auth)
def divide(request: HttpRequest, number: int) -> dict[str, float]:
    """Zero is an error that nobody handles."""
    return {"result": 1 / number}


@desk.get("/summary", auth=django_auth_is_staff)
def summary(request: HttpRequest) -> dict[str, int]:
    """Of staff alone."""
    return {"items": Item.objects.count(), "stock": Item.objects.aggregate(all=Sum("stock", default=0))["all"]}


@desk.get("/later", auth=django_auth, response=list[str])
async def later(request: HttpRequest, done: bool = False) -> list[str]:
    """An operation on the event loop."""
    return [item.slug async for item in visible(Item.objects.filter(done=done), request.auth)]


@desk.post("/later", auth=django_auth, response={201: ShelfOut, 404: Error})
async def make_later(request: HttpRequest, data: ShelfIn) -> Status[Any]:
    """An operation on the event loop that writes."""
    if data.name == "nowhere":
        return Status(404, {"detail": "There is no such place."})
    return Status(201, await Shelf.objects.acreate(owner=request.auth, **data.dict()))


# Callers that say who they are in a header, whoever is logged in.


class Bearer(HttpBearer):
    def authenticate(self, request: HttpRequest, token: str) -> Any:
        if not token.startswith("secret-of-"):
            return None
        return User.objects.filter(username=token.removeprefix("secret-of-")).first()


class Key(APIKeyHeader):
    param_name = "X-Workshop-Key"

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        if key is None or not key.startswith("key-of-"):
            return None
        return User.objects.filter(username=key.removeprefix("key-of-")).first()


tokens = Router(tags=["tokens"])


@tokens.get("/bearer", auth=Bearer())
def bearer(request: HttpRequest) -> dict[str, Any]:
    return {"user": request.auth.username, "items": visible(Item.objects.all(), request.auth).count()}


@tokens.get("/key", auth=Key())
def key(request: HttpRequest) -> dict[str, str]:
    return {"user": request.auth.username}


@tokens.get("/either", auth=[Bearer(), django_auth])
def either(request: HttpRequest) -> dict[str, str]:
    """A token, or else the session."""
    return {"user": request.auth.username}


# Two routers on one path: Django asks the first pattern alone, so that the POST of the second is never reached.


board = Router(tags=["board"], auth=django_auth)
second_board = Router(tags=["board"], auth=django_auth)


@board.get("")
def read_board(request: HttpRequest) -> dict[str, str]:
    return {"board": "read"}


@second_board.post("")
def write_board(request: HttpRequest, data: Notice) -> dict[str, str]:
    return {"board": data.text}


@second_board.get("/lines")
def board_lines(request: HttpRequest) -> dict[str, list[str]]:
    return {"lines": ["one", "two"]}


@api.get("/version")
def version(request: HttpRequest) -> dict[str, str]:
    """On the API itself: without a router, a tag, a schema or a login."""
    return {"version": api.version}


api.add_router("/items", items)
api.add_router("/shelves", shelves)
api.add_router("/orders", orders)
api.add_router("/desk", desk)
api.add_router("/tokens", tokens)
api.add_router("/board", board)
api.add_router("/board", second_board)

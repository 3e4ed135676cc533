"""Rows of models that ask for more than their fields."""

from __future__ import annotations

from typing import Any

from cms.models import ACCESS_PAGE, Page, PageContent, PagePermission
from django.apps import apps
from django.contrib.auth import get_permission_codename, get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django_date_extensions.fields import ApproximateDate
from djstripe.models.base import StripeModel
from filer.models import File, Folder, FolderPermission, Image
from guardian.shortcuts import assign_perm
from hordak.models import Leg
from polymorphic.models import PolymorphicModel

from tests.projects.packages.shop.models import Breakable, Dossier, Toy
from tests.projects.rows import Factory, Makers

#: What Stripe says of its objects. The pages of dj-stripe fail without it.
_OF_STRIPE: dict[str, Any] = {
    "active": True,
    "amount": 4200,
    "amount_due": 4200,
    "attempt_count": 1,
    "billing_reason": "manual",
    "captured": True,
    "code": "TENOFF",
    "currency": "eur",
    "filename": "letter.pdf",
    "footer": "",
    "hosted_invoice_url": "https://example.com/invoice",
    "invoice_pdf": "https://example.com/invoice.pdf",
    "lookup_key": "storage",
    "name": "Storage",
    "paid": True,
    "status": "succeeded",
    "times_redeemed": 3,
    "total": 4200,
    "url": "https://example.com/file",
}
#: What it says otherwise of some.
_OF_MODEL: dict[str, dict[str, Any]] = {
    "balancetransaction": {"status": "available", "type": "charge"},
    "bankaccount": {"status": "new"},
    "dispute": {"status": "lost"},
    "invoice": {"status": "paid"},
    "payout": {"status": "paid"},
    "subscription": {"status": "canceled"},
    "taxid": {"type": "eu_vat"},
}
#: Relations of objects of Stripe that are filled, though they may be null.
_FILLED = frozenset(("customer", "djstripe_owner_account", "invoice"))


def _of_stripe(factory: Factory, model: Any) -> models.Model:
    """An object of Stripe, most of whose values are in one JSON value."""
    # They lead back to each other by many ways.
    may_be_null = {field.name for field in model._meta.concrete_fields if field.is_relation and field.null}
    values, name = factory.values(model, without=may_be_null - _FILLED), model._meta.model_name
    values["stripe_data"] = {**values["stripe_data"], **_OF_STRIPE, **_OF_MODEL.get(name, {})}
    if name == "balancetransaction":
        values["type"] = "charge"
    elif name == "event":
        values["data"] = {"object": {"object": "charge", **values["data"]}}
    elif name == "webhookendpoint":
        values["enabled_events"] = ["charge.succeeded"]
    row: models.Model = model.objects.create(**values)
    return row


def _child(factory: Factory, model: Any) -> models.Model:
    """A row of a class of polymorphic models, which says itself of which class it is."""
    row: models.Model = model.objects.create(**factory.values(model, without={"polymorphic_ctype"}))
    return row


#: Images that are no files, which saving would open, and rows that lead back by many ways.
_OF_FORUMS = frozenset(("avatar", "first_post", "image", "last_post"))


def _of_forums(factory: Factory, model: Any) -> models.Model:
    row: models.Model = model.objects.create(**factory.values(model, without={*_OF_FORUMS}))
    return row


def _page(factory: Factory, model: Any) -> models.Model:
    """A page of the cms without the names of programs, which it would ask for."""
    without = {"application_urls", "navigation_extenders"}
    row: models.Model = model.objects.create(**factory.values(model, without=without))
    return row


def _leg(factory: Factory, model: Any) -> models.Model:
    """A leg of a transaction of hordak, which is on one side alone."""
    row: models.Model = model.objects.create(**factory.values(model, without={"credit"}))
    return row


def _leg_in_view(factory: Factory, model: Any) -> models.Model:
    """A row of a view in the database shows the row of a table."""
    row: models.Model = model.objects.get(pk=factory.make(Leg).pk)
    return row


def _owner(factory: Factory, model: Any) -> models.Model:
    """The owner of an organization, who is one of its users."""
    member: Any = factory.make(model._meta.get_field("organization_user").related_model)
    row: models.Model = model.objects.create(organization=member.organization, organization_user=member)
    return row


def _recipe(factory: Factory, model: Any) -> models.Model:
    values = {**factory.values(model), "invented": ApproximateDate(2021, 3)}
    row: models.Model = model.objects.create(**values)
    return row


def guest(factory: Factory) -> Any:
    """A user of the staff with permissions on single rows: one of two of each model, by the package's own means."""
    user: Any
    user, _ = get_user_model().objects.get_or_create(username="guest", defaults={"is_staff": True})
    for model in (Folder, File, Image, Page, PageContent):
        for action in ("view", "change"):
            content_type = ContentType.objects.get_for_model(model, for_concrete_model=False)
            named = {"content_type": content_type, "codename": get_permission_codename(action, model._meta)}
            user.user_permissions.add(Permission.objects.get_or_create(**named)[0])
    [dossier, *_], [folder, *_], [page, *_] = map(factory.rows_of, (Dossier, Folder, Page))
    for action in ("view", "change"):
        content_type = ContentType.objects.get_for_model(Dossier)
        Permission.objects.get_or_create(content_type=content_type, codename=f"{action}_dossier")
        assign_perm(f"shop.{action}_dossier", user, dossier)
    allowed = {"can_read": FolderPermission.ALLOW, "can_edit": FolderPermission.ALLOW}
    FolderPermission.objects.create(user=user, folder=folder, type=FolderPermission.THIS, **allowed)
    PagePermission.objects.create(user=user, page=page, grant_on=ACCESS_PAGE)
    return user


_models: list[Any] = list(apps.get_models())

MAKERS: Makers = {
    **{model._meta.label_lower: _of_stripe for model in _models if issubclass(model, StripeModel)},
    **{model._meta.label_lower: _child for model in _models if issubclass(model, PolymorphicModel)},
    "cms.page": _page,
    "forum.forum": _of_forums,
    "forum_conversation.topic": _of_forums,
    "forum_member.forumprofile": _of_forums,
    "hordak.leg": _leg,
    "hordak.legview": _leg_in_view,
    "organizations.organizationowner": _owner,
    "shop.good": lambda factory, model: _child(factory, Toy),
    "shop.item": lambda factory, model: _child(factory, Breakable),
    "shop.recipe": _recipe,
}

"""What the API reads and shows of the shop's models."""

from decimal import Decimal

from django.contrib.auth.models import Group
from django.core.mail import send_mail
from django.db import transaction
from rest_framework import serializers

from tests.api.project.models import Customer, Document, Event, Line, Order, Product, Setting, Ticket


class OwnCustomerField(serializers.PrimaryKeyRelatedField):
    """A customer of the user's own, or any for staff."""

    def get_queryset(self):
        user = self.context["request"].user
        return Customer.objects.all() if user.is_staff else Customer.objects.filter(owner_id=user.pk)


class ProductSerializer(serializers.ModelSerializer):
    """A product with its slug, which is its key."""

    class Meta:
        model = Product
        fields = ["slug", "name", "price"]


class PriceSerializer(serializers.Serializer):
    """The new price of a product."""

    product = serializers.PrimaryKeyRelatedField(queryset=Product.objects.all())
    price = serializers.DecimalField(max_digits=8, decimal_places=2, min_value=Decimal(0))


class LineSerializer(serializers.ModelSerializer):
    """A line of an order, whose amount is computed."""

    class Meta:
        model = Line
        fields = ["id", "product", "quantity", "amount"]
        read_only_fields = ["amount"]

    def save(self, **kwargs):
        product = self.validated_data.get("product") or self.instance.product
        quantity = self.validated_data.get("quantity") or getattr(self.instance, "quantity", 1)
        return super().save(amount=product.price * quantity, **kwargs)


class OrderListSerializer(serializers.ModelSerializer):
    """The few fields of an order that a list shows."""

    class Meta:
        model = Order
        fields = ["id", "number", "status", "total", "placed_at"]


class OrderSerializer(serializers.ModelSerializer):
    """An order with its lines, which are written elsewhere."""

    owner = serializers.CharField(source="owner.username", read_only=True)
    customer = OwnCustomerField()
    lines = LineSerializer(many=True, read_only=True)

    class Meta:
        model = Order
        fields = ["id", "owner", "customer", "number", "status", "total", "note", "placed_at", "lines"]
        read_only_fields = ["status"]


class StaffOrderSerializer(OrderSerializer):
    """An order with what only staff may see and write."""

    class Meta(OrderSerializer.Meta):
        fields = [*OrderSerializer.Meta.fields, "internal_note"]


class PaySerializer(serializers.Serializer):
    """A payment of the whole order."""

    amount = serializers.DecimalField(max_digits=10, decimal_places=2)
    method = serializers.ChoiceField(choices=["card", "cash"], default="card")

    def validate_amount(self, amount):
        if amount != self.context["order"].total:
            raise serializers.ValidationError("Pay the total of the order.")
        return amount


class StatusSerializer(serializers.ModelSerializer):
    """The status of an order alone."""

    class Meta:
        model = Order
        fields = ["status"]


class NoteSerializer(serializers.ModelSerializer):
    """The note of an order alone."""

    class Meta:
        model = Order
        fields = ["note"]


class CredentialsSerializer(serializers.ModelSerializer):
    """The key of an order, which the user's password confirms."""

    password = serializers.CharField(write_only=True, help_text="Your own password.")

    class Meta:
        model = Order
        fields = ["number", "status", "api_key", "password"]
        read_only_fields = ["number", "status"]

    def validate_password(self, password):
        if not self.context["request"].user.check_password(password):
            raise serializers.ValidationError("This is not your password.")
        return password

    def update(self, instance, validated_data):
        validated_data.pop("password", None)
        return super().update(instance, validated_data)


class CheckoutLineSerializer(serializers.ModelSerializer):
    """A product and how many of it."""

    class Meta:
        model = Line
        fields = ["product", "quantity"]


class CheckoutSerializer(serializers.ModelSerializer):
    """An order that is written with its lines."""

    customer = OwnCustomerField()
    lines = CheckoutLineSerializer(many=True, allow_empty=False)

    class Meta:
        model = Order
        fields = ["id", "customer", "number", "total", "placed_at", "lines"]
        read_only_fields = ["total"]

    @transaction.atomic
    def create(self, validated_data):
        wanted = [
            (line["product"], line.get("quantity", 1), line["product"].price * line.get("quantity", 1))
            for line in validated_data.pop("lines")
        ]
        order = Order.objects.create(total=sum(amount for _, _, amount in wanted), **validated_data)
        for product, quantity, amount in wanted:
            order.lines.create(product=product, quantity=quantity, amount=amount)
        return order


class CustomerListSerializer(serializers.HyperlinkedModelSerializer):
    """The name of a customer and where to find more."""

    class Meta:
        model = Customer
        fields = ["url", "name"]


class CustomerSerializer(serializers.HyperlinkedModelSerializer):
    """A customer with links to the orders."""

    class Meta:
        model = Customer
        fields = ["url", "id", "name", "email", "orders"]
        read_only_fields = ["orders"]


class TicketSerializer(serializers.ModelSerializer):
    """A ticket, of which the owner is told by mail."""

    owner = serializers.HiddenField(default=serializers.CreateOnlyDefault(serializers.CurrentUserDefault()))

    class Meta:
        model = Ticket
        fields = ["id", "owner", "title", "body", "priority", "closed"]
        read_only_fields = ["closed"]

    def create(self, validated_data):
        ticket = super().create(validated_data)
        send_mail(f"Ticket: {ticket.title}", ticket.body, "shop@example.com", [ticket.owner.email])
        return ticket


class DocumentSerializer(serializers.ModelSerializer):
    """A document with the address and the size of its file."""

    size = serializers.IntegerField(source="file.size", read_only=True)

    class Meta:
        model = Document
        fields = ["id", "title", "file", "size"]


class SettingSerializer(serializers.ModelSerializer):
    """A setting of the current user."""

    owner = serializers.HiddenField(default=serializers.CurrentUserDefault())

    class Meta:
        model = Setting
        fields = ["id", "owner", "name", "value"]


class EventSerializer(serializers.ModelSerializer):
    """An event with all that it may have."""

    class Meta:
        model = Event
        fields = ["id", "kind", "text", "amount", "created"]


class FeedSerializer(EventSerializer):
    """An event with the fields that its kind has."""

    FIELDS = {"login": ["id", "kind"], "payment": ["id", "kind", "amount"], "message": ["id", "kind", "text"]}

    def to_representation(self, instance):
        shown = super().to_representation(instance)
        return {name: shown[name] for name in self.FIELDS[instance.kind]}


class GroupSerializer(serializers.ModelSerializer):
    """A group of users."""

    class Meta:
        model = Group
        fields = ["id", "name"]

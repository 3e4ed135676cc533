"""Who may do what, beside the permissions of REST framework."""

from rest_framework.permissions import BasePermission


class IsOwnerOrStaff(BasePermission):
    """Rows are for their owner and for staff."""

    message = "This belongs to somebody else."

    def has_object_permission(self, request, view, obj):
        return request.user.is_staff or obj.owner_id == request.user.pk


class HasScope(BasePermission):
    """The token has the scope that the view names in ``required_scope``."""

    def has_permission(self, request, view):
        return request.auth is not None and view.required_scope in request.auth.scopes


class FromInside(BasePermission):
    """The request comes from this machine or from the network of the shop."""

    message = "Only from inside."

    def has_permission(self, request, view):
        forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "").partition(",")[0].strip()
        return (forwarded or request.META.get("REMOTE_ADDR", "")).startswith(("127.", "10."))

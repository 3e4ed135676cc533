"""How a client names the version of the API."""

from rest_framework.versioning import AcceptHeaderVersioning, URLPathVersioning


class PathVersions(URLPathVersioning):
    """The version is a part of the path."""

    allowed_versions = ["v1", "v2"]
    default_version = "v1"


class HeaderVersions(AcceptHeaderVersioning):
    """The version is a parameter of the Accept header."""

    allowed_versions = ["1.0", "2.0"]
    default_version = "1.0"

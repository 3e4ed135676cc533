"""How often a view may be asked."""

from rest_framework.throttling import UserRateThrottle


class BurstThrottle(UserRateThrottle):
    """Three requests of each user in a minute."""

    scope = "burst"
    rate = "3/min"

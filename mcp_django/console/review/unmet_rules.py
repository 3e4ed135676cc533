"""Declared approvals that nobody could give: each change that needs one is refused at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext, ngettext

from mcp_django.bridge.changes import approvals
from mcp_django.bridge.declared.consent import GROUP, By

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite


@dataclass(frozen=True, slots=True)
class Unmet:
    """An approval that takes more people than there are."""

    #: A tool, or the operation on a model.
    where: str
    by: By
    count: int
    found: int

    def __str__(self) -> str:
        named = self.by if isinstance(self.by, str) else ""
        if named.startswith(GROUP):
            takes = ngettext(
                "takes %(count)d person of active staff who may approve changes of the group %(named)s",
                "takes %(count)d people of active staff who may approve changes of the group %(named)s",
                self.count,
            )
        elif named:
            takes = ngettext(
                "takes %(count)d person of active staff who may approve changes with the permission %(named)s",
                "takes %(count)d people of active staff who may approve changes with the permission %(named)s",
                self.count,
            )
        else:
            takes = ngettext(
                "takes %(count)d person of active staff who may approve changes",
                "takes %(count)d people of active staff who may approve changes",
                self.count,
            )
        takes = takes % {"count": self.count, "named": named.removeprefix(GROUP)}
        there = ngettext("%(found)d is there", "%(found)d are there", self.found) % {"found": self.found}
        return gettext("%(where)s: %(takes)s; %(there)s") % {"where": self.where, "takes": takes, "there": there}


def unmet(site: MCPSite) -> list[Unmet]:
    """The approvals that the project declares and that too few people may give, as the database is now.

    What a rule decides by a function, and what a ``get_consent`` of the project says, depends on the change.
    """
    numbers: dict[tuple[By, int], int] = {}
    found = []
    for where, rule in sorted(approvals.declared_approvals(site), key=lambda one: one[0]):
        asked = rule.by, rule.count
        if asked not in numbers:
            numbers[asked] = approvals.number_named(*asked)
        if numbers[asked] < rule.count:
            found.append(Unmet(where, *asked, numbers[asked]))
    return found

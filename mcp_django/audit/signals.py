"""The signal of the audit trail."""

from __future__ import annotations

from django.dispatch import Signal

#: Sent once for each line that was written, with ``call``, its columns by name. Receivers run in the thread that writes
#: the trail, a moment after the call. An exception of one is logged.
call_recorded = Signal()

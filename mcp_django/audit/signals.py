"""The signal of the audit trail."""

from __future__ import annotations

from django.dispatch import Signal

#: Sent by the model Call once for each line that was written, with ``call``, a dictionary of its columns. Receivers run
#: in the thread that wrote the line, after the call. An exception in a receiver is logged.
call_recorded = Signal()

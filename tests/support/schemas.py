"""Every message of the server is validated with the published schema of its revision. Extra keys are refused."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema_rs
from mcp_types.methods import parse_server_notification, validate_server_result
from pydantic import ValidationError

#: Where the published schemas are. A folder that the environment names has to be there.
FOLDER = Path(os.environ.get("MCP_SCHEMAS", Path(__file__).parents[3] / "shared" / "schemas"))

#: Places whose content others define, so that the schema says little: a tool's own schema, free metadata.
_FREE = frozenset(
    {
        "_meta",
        "inputSchema",
        "outputSchema",
        "structuredContent",
        "data",
        "experimental",
        "extensions",
        "requestedSchema",
        "metadata",
    }
)

_RESULTS = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "ping": "EmptyResult",
    "logging/setLevel": "EmptyResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "subscriptions/listen": "SubscriptionsListenResult",
}
_REQUESTS = {
    "elicitation/create": "ElicitRequest",
    "sampling/createMessage": "CreateMessageRequest",
    "roots/list": "ListRootsRequest",
}
_NOTIFICATIONS = {
    "notifications/progress": "ProgressNotification",
    "notifications/message": "LoggingMessageNotification",
    "notifications/cancelled": "CancelledNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
    "notifications/prompts/list_changed": "PromptListChangedNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
}


@lru_cache
def _schema(revision: str) -> dict[str, Any]:
    path = FOLDER / f"{revision}.json"
    schema: dict[str, Any] = json.loads(path.read_text())
    definitions = schema.get("$defs") or schema["definitions"]
    for name, definition in definitions.items():
        if name not in ("Result", "MetaObject", "RequestMetaObject", "NotificationMetaObject"):
            _close(definition)
    return schema


def _close(node: Any) -> None:
    """Refuse keys that the schema does not name."""
    if isinstance(node, list):
        for item in node:
            _close(item)
    if not isinstance(node, dict):
        return
    if "properties" in node:
        if node.get("additionalProperties", {}) == {}:
            node["additionalProperties"] = False
        for key, value in node["properties"].items():
            if key not in _FREE:
                _close(value)
    for key in ("items", "anyOf", "oneOf", "allOf"):
        _close(node.get(key))


@lru_cache
def _validator(revision: str, definition: str) -> Any:
    schema = _schema(revision)
    place = "$defs" if "$defs" in schema else "definitions"
    cls = jsonschema_rs.Draft202012Validator if place == "$defs" else jsonschema_rs.Draft7Validator
    return cls({place: schema[place], "$ref": f"#/{place}/{definition}"})


def check(message: dict[str, Any], revision: str, method: str | None = None) -> None:
    """Assert that a message is one that ``revision`` knows: the answer to ``method``, or a notification."""
    if "error" in message:
        name = "JSONRPCErrorResponse" if revision >= "2025-11-25" else "JSONRPCError"
        # Old schemas demand an id, which an error has none of when the request's could not be read.
        assert_valid(revision, name, {"id": 0, **message})
        assert isinstance(message["error"]["data"]["reason"], str)
        if message["error"]["code"] == -32602:
            assert all(set(error) == {"field", "message", "received"} for error in message["error"]["data"]["errors"])
        return
    from tests.support import tasks

    if tasks.check_message(message, method):
        return
    if "method" in message:
        assert message["jsonrpc"] == "2.0"
        # The older schemas describe a notification without its frame.
        framed = message if revision >= "2025-11-25" else {k: v for k, v in message.items() if k != "jsonrpc"}
        if "id" in message:
            framed = framed if revision >= "2025-11-25" else {k: v for k, v in framed.items() if k != "id"}
            assert_valid(revision, _REQUESTS[message["method"]], framed)
            return
        if message["method"] == "notifications/subscriptions/acknowledged":
            # The extension's, which the revision does not know.
            ids = framed["params"]["notifications"].get("taskIds", [""])
            assert ids and all(isinstance(item, str) for item in ids)
            honoured = {k: v for k, v in framed["params"]["notifications"].items() if k != "taskIds"}
            framed = {**framed, "params": {**framed["params"], "notifications": honoured}}
        if revision < "2025-11-25" and "_meta" in framed.get("params", {}):
            # The older schemas say once for all notifications that they may have it.
            assert_valid(revision, "Notification", {**framed, "params": {"_meta": framed["params"]["_meta"]}})
            rest = {name: value for name, value in framed["params"].items() if name != "_meta"}
            framed = {**framed, "params": rest}
        assert_valid(revision, _NOTIFICATIONS[message["method"]], framed)
        parse_server_notification(message["method"], revision, message.get("params"))
        return
    assert set(message) == {"jsonrpc", "id", "result"}, message
    assert method is not None
    if message["result"].get("resultType") == "input_required":
        assert method in ("tools/call", "prompts/get", "resources/read"), method
        assert not {"ttlMs", "cacheScope"} & set(message["result"])
        assert_valid(revision, "InputRequiredResult", message["result"])
        return
    assert_valid(revision, _RESULTS[method], message["result"])
    if method != "subscriptions/listen":
        try:
            validate_server_result(method, revision, message["result"])
        except ValidationError as error:
            raise AssertionError(f"mcp-types refuses the result of {method}: {error}") from None


def are_here() -> bool:
    """Whether the published schemas exist. Without them messages are validated only with mcp-types.

    Raises NotADirectoryError where ``MCP_SCHEMAS`` names a folder that does not exist.
    """
    if not FOLDER.is_dir() and "MCP_SCHEMAS" in os.environ:
        raise NotADirectoryError(f"MCP_SCHEMAS names {FOLDER}, which is not a folder")
    return FOLDER.is_dir()


def said() -> str:
    """A line that says whether messages are held against the published schemas."""
    if are_here():
        return f"messages were held against the published schemas of {len(list(FOLDER.glob('*.json')))} revisions"
    return f"skipped: messages were not held against the published schemas, which are not at {FOLDER} (set MCP_SCHEMAS)"


def assert_valid(revision: str, definition: str, value: Any) -> None:
    """Assert that a value matches a definition of the revision's schema."""
    if not are_here():
        return
    validator = _validator(revision, definition)
    if not validator.is_valid(value):
        errors = [(error.instance_path, error.message) for error in validator.iter_errors(value)]
        raise AssertionError(f"{revision} {definition}: {errors}")

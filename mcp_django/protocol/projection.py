"""Projection: the revision that introduced each field, and what an older client gets in its place.

Handlers write the newest shape. ``project`` removes what the client's revision does not know (SPEC changelogs).
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping
from hashlib import sha256

from mcp_django.exceptions import MissingCapability
from mcp_django.protocol.json_schema.schemas import under_result
from mcp_django.protocol.revisions import NEWEST
from mcp_django.protocol.types import JSON

#: Kind of object → field → the revision that introduced it. Fields that are not in the table have always existed.
SINCE: Mapping[str, Mapping[str, str]] = {
    "Implementation": {
        "title": "2025-06-18",
        "icons": "2025-11-25",
        "description": "2025-11-25",
        "websiteUrl": "2025-11-25",
    },
    "Tool": {
        "title": "2025-06-18",
        "_meta": "2025-06-18",
        "icons": "2025-11-25",
        "annotations": "2025-03-26",
        "outputSchema": "2025-06-18",
    },
    "Prompt": {"title": "2025-06-18", "_meta": "2025-06-18", "icons": "2025-11-25"},
    "PromptArgument": {"title": "2025-06-18"},
    "Resource": {"title": "2025-06-18", "_meta": "2025-06-18", "icons": "2025-11-25"},
    "ResourceTemplate": {"title": "2025-06-18", "_meta": "2025-06-18", "icons": "2025-11-25"},
    "ResourceContents": {"_meta": "2025-06-18"},
    "ContentBlock": {"_meta": "2025-06-18", "icons": "2025-11-25"},
    "Annotations": {"lastModified": "2025-06-18"},
    "CallToolResult": {"structuredContent": "2025-06-18"},
    "ServerCapabilities": {"completions": "2025-03-26", "extensions": "2026-07-28"},
    "ProgressParams": {"message": "2025-03-26"},
}

#: Content block type → the revision that introduced it. Text, image and resource have always existed.
CONTENT_SINCE: Mapping[str, str] = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
#: The revisions that introduced elicitation, elicitation by a URL, and questions in the place of a result. In the last
#: the server sends no requests of its own.
ELICITATION_SINCE, URL_ELICITATION_SINCE, MODERN_SINCE = "2025-06-18", "2025-11-25", "2026-07-28"
#: The revision that introduced tools for the client's model.
SAMPLING_TOOLS_SINCE = "2025-11-25"


def project(method: str, result: JSON, revision: str) -> JSON:
    """The result of ``method`` as ``revision`` knows it."""
    # The newest revision knows every field.
    shape = _SHAPES.get(method) if revision != NEWEST else None
    return result if shape is None else shape(result, revision)


def _strip(kind: str, value: JSON, revision: str) -> JSON:
    since = SINCE[kind]
    return {key: item for key, item in value.items() if since.get(key, "") <= revision}


def _each(kind: str, key: str) -> Callable[[JSON, str], JSON]:
    def shape(result: JSON, revision: str) -> JSON:
        return {**result, key: [_annotated(_strip(kind, item, revision), revision) for item in result[key]]}

    return shape


def _annotated(value: JSON, revision: str) -> JSON:
    """``value`` with its Annotations projected. A tool's annotations have the same key and other fields, which stay."""
    if "annotations" in value:
        return {**value, "annotations": _strip("Annotations", value["annotations"], revision)}
    return value


def _initialize(result: JSON, revision: str) -> JSON:
    return {
        **result,
        "capabilities": _strip("ServerCapabilities", result["capabilities"], revision),
        "serverInfo": _strip("Implementation", result["serverInfo"], revision),
    }


def _list_tools(result: JSON, revision: str) -> JSON:
    listed = _each("Tool", "tools")(result, revision)
    if revision >= MODERN_SINCE:
        return listed
    return {**listed, "tools": [_with_old_schemas(tool) for tool in listed["tools"]]}


def _with_old_schemas(tool: JSON) -> JSON:
    """Before 2026-07-28 structured content is an object. Other values, and their schemas, go under ``result``."""
    # smolagents 1.26 connects to no server where a schema of arguments names no properties.
    tool = {**tool, "inputSchema": {"properties": {}, **_with_object_properties(tool["inputSchema"])}}
    if "outputSchema" in tool:
        schema = tool["outputSchema"]
        schema = schema if schema.get("type") == "object" else under_result(schema)
        tool["outputSchema"] = _with_object_properties(schema)
    return tool


def _with_object_properties(schema: JSON) -> JSON:
    """Before 2026-07-28 the schema of a property is always an object, never true or false."""
    properties = schema.get("properties", {})
    if not any(isinstance(item, bool) for item in properties.values()):
        return schema
    written: dict[bool, JSON] = {True: {}, False: {"not": {}}}
    old = {name: written[item] if isinstance(item, bool) else item for name, item in properties.items()}
    return {**schema, "properties": old}


def _call_tool(result: JSON, revision: str) -> JSON:
    stripped = _strip("CallToolResult", result, revision)
    # The key decides whether there is any: null, 0, false and [] are values too.
    if revision < MODERN_SINCE and not isinstance(stripped.get("structuredContent", {}), dict):
        stripped["structuredContent"] = {"result": stripped["structuredContent"]}
    return {**stripped, "content": [content_block(block, revision) for block in result["content"]]}


def _list_prompts(result: JSON, revision: str) -> JSON:
    def shape(prompt: JSON) -> JSON:
        prompt = _strip("Prompt", prompt, revision)
        if "arguments" not in prompt:
            return prompt
        return {**prompt, "arguments": [_strip("PromptArgument", item, revision) for item in prompt["arguments"]]}

    return {**result, "prompts": [shape(prompt) for prompt in result["prompts"]]}


def _get_prompt(result: JSON, revision: str) -> JSON:
    messages = result["messages"]
    return {
        **result,
        "messages": [{**message, "content": content_block(message["content"], revision)} for message in messages],
    }


def content_block(block: JSON, revision: str) -> JSON:
    """The content block as ``revision`` knows it. A block of a later type is replaced by one of an older type."""
    if CONTENT_SINCE.get(block["type"], "") > revision:
        older = _OLDER[block["type"]](block)
        block = {**older, **{key: block[key] for key in ("annotations", "_meta") if key in block}}
    block = _annotated(_strip("ContentBlock", block, revision), revision)
    if block["type"] == "resource":
        return {**block, "resource": _strip("ResourceContents", block["resource"], revision)}
    return block


def _link_as_text(block: JSON) -> JSON:
    return {"type": "text", "text": f"{block.get('title') or block['name']}: {block['uri']}"}


def _audio_as_resource(block: JSON) -> JSON:
    digest = base64.urlsafe_b64encode(sha256(base64.b64decode(block["data"])).digest()).decode().rstrip("=")
    # A URI for bytes that have no other name (RFC 6920).
    resource = {"uri": f"ni:///sha-256;{digest}", "mimeType": block["mimeType"], "blob": block["data"]}
    return {"type": "resource", "resource": resource}


#: Content block type → the function that makes the block for clients that do not know the type.
_OLDER: Mapping[str, Callable[[JSON], JSON]] = {"audio": _audio_as_resource, "resource_link": _link_as_text}


def progress_params(params: JSON, revision: str) -> JSON:
    """The params of ``notifications/progress`` as ``revision`` knows them."""
    return _strip("ProgressParams", params, revision)


def question_params(method: str, key: str, params: JSON, revision: str) -> JSON:
    """The params of a question to the client as ``revision`` knows them. Raises MissingCapability."""
    if method == "sampling/createMessage":
        return _sampling_params(params, revision)
    if method != "elicitation/create":
        return params
    is_url = params.get("mode") == "url"
    if revision < (URL_ELICITATION_SINCE if is_url else ELICITATION_SINCE):
        raise MissingCapability({"elicitation": {"url": {}} if is_url else {}})
    if is_url:
        # Only one revision has an id here. Later ones identify a question by its key.
        return {**params, "elicitationId": f"{key}-{secrets.token_urlsafe(16)}"} if revision < MODERN_SINCE else params
    if revision >= URL_ELICITATION_SINCE:
        return params
    schema = params["requestedSchema"]
    properties = {name: _old_form_field(field) for name, field in schema["properties"].items()}
    return {**params, "requestedSchema": {**schema, "properties": properties}}


def _sampling_params(params: JSON, revision: str) -> JSON:
    """Before 2025-11-25 there were no tools, and a message held one block of content."""
    if revision >= SAMPLING_TOOLS_SINCE:
        return params
    if not params.keys().isdisjoint(("tools", "toolChoice")):
        raise MissingCapability({"sampling": {"tools": {}}})
    messages = [
        {**message, "content": block}
        for message in params["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [message["content"]])
    ]
    late = {
        message["content"]["type"]
        for message in messages
        if CONTENT_SINCE.get(message["content"]["type"], "") > revision
    }
    if late:
        raise MissingCapability(
            {"sampling": {}}, f"The client's revision has no content of type {', '.join(sorted(late))} for its model."
        )
    return {**params, "messages": messages}


def _old_form_field(field: JSON) -> JSON:
    """A field of a form as 2025-06-18 knows it, the first revision with forms.

    Later revisions added defaults of other types than boolean, titles of choices, and the choice of several values.
    """
    if field["type"] == "array":
        raise MissingCapability({"elicitation": {}}, "The client's revision has no form field for several choices.")
    if field["type"] != "boolean":
        field = {name: value for name, value in field.items() if name != "default"}
    if "oneOf" in field:
        choices = field["oneOf"]
        field = {name: value for name, value in field.items() if name != "oneOf"}
        field |= {"enum": [c["const"] for c in choices], "enumNames": [c.get("title", c["const"]) for c in choices]}
    return field


_SHAPES: Mapping[str, Callable[[JSON, str], JSON]] = {
    "initialize": _initialize,
    "tools/list": _list_tools,
    "tools/call": _call_tool,
    "resources/list": _each("Resource", "resources"),
    "resources/templates/list": _each("ResourceTemplate", "resourceTemplates"),
    "resources/read": _each("ResourceContents", "contents"),
    "prompts/list": _list_prompts,
    "prompts/get": _get_prompt,
}

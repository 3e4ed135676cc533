"""What clients publish and send, as recorded by others.

Claude and ChatGPT: quoted in django-oauth-toolkit's issues 1855, 1857 and 1845. Claude Code: its redirects as in
claude-code's issues 37747 and 64705. The registrations are put together from what the clients' issues say of them.
"""

from __future__ import annotations

from typing import Any

CLAUDE: dict[str, Any] = {
    "client_id": "https://claude.ai/oauth/mcp-oauth-client-metadata",
    "client_name": "Claude",
    "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
    "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
CLAUDE_CODE: dict[str, Any] = {
    "client_id": "https://claude.ai/oauth/claude-code-client-metadata",
    "client_name": "Claude Code",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
CHATGPT: dict[str, Any] = {
    "client_id": "https://chatgpt.com/oauth/client.json",
    "client_uri": "https://chatgpt.com/",
    "redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect"],
    "token_endpoint_auth_method": "private_key_jwt",
    "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "client_name": "ChatGPT",
    "logo_uri": "https://persistent.oaistatic.com/sonic/misc/openai-logo.png",
    "token_endpoint_auth_signing_alg": "RS256",
    "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
}
DOCUMENTS = [CLAUDE, CLAUDE_CODE, CHATGPT]

#: Payloads of registrations, each with the redirect that is asked for afterwards.
REGISTRATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "Claude": (
        {
            "client_name": "Claude",
            "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "scope": "read",
            "token_endpoint_auth_method": "client_secret_post",
        },
        "https://claude.ai/api/mcp/auth_callback",
    ),
    "ChatGPT": (
        {
            "client_name": "ChatGPT",
            "redirect_uris": ["https://chatgpt.com/connector/oauth/AbC-12_3"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        },
        "https://chatgpt.com/connector/oauth/AbC-12_3",
    ),
    "VS Code": (
        {
            "client_name": "Visual Studio Code",
            "client_uri": "https://code.visualstudio.com",
            "grant_types": [
                "authorization_code",
                "refresh_token",
                "urn:ietf:params:oauth:grant-type:device_code",
            ],
            "response_types": ["code"],
            "redirect_uris": [
                "https://insiders.vscode.dev/redirect",
                "https://vscode.dev/redirect",
                "http://127.0.0.1/",
                "http://127.0.0.1:33418/",
            ],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        },
        "http://127.0.0.1:51712/",
    ),
    "Cursor": (
        {
            "client_name": "Cursor",
            "redirect_uris": [
                "cursor://anysphere.cursor-mcp/oauth/callback",
                "http://localhost:8787/callback",
                "https://www.cursor.com/agents/mcp/oauth/callback",
            ],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        },
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ),
    "mcp-remote": (
        {
            "client_name": "MCP CLI Proxy",
            "client_uri": "https://github.com/modelcontextprotocol/mcp-cli",
            "redirect_uris": ["http://localhost:3334/oauth/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "software_id": "2e6dc280-f3c3-4e01-99a7-8181dbd1d23d",
        },
        "http://localhost:3334/oauth/callback",
    ),
    "Inspector": (
        {
            "client_name": "MCP Inspector",
            "client_uri": "https://github.com/modelcontextprotocol/inspector",
            "redirect_uris": ["http://localhost:6274/oauth/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": "",
        },
        "http://localhost:6274/oauth/callback",
    ),
}

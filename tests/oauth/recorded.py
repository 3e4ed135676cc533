"""What clients publish and send, as recorded by others.

Documents: Claude's is quoted in rauthy's issue 1644, and without its client_uri in django-oauth-toolkit's 1855;
ChatGPT's in django-oauth-toolkit's 1845, and without its logo in 1857. Of Claude Code's only the redirects are quoted
(claude-code's issues 42301, 37767 and 64705); that it is public is said there, and the other members are supposed.

Registrations: VS Code's, mcp-remote's and the Inspector's are what their sources make
(microsoft/vscode src/vs/base/common/oauth.ts, geelen/mcp-remote src/lib/node-oauth-client-provider.ts and src/proxy.ts,
modelcontextprotocol/inspector client/src/lib/auth.ts). Of the others the redirects are recorded: Cursor's in
soflyy/agent-connector-for-wp's issue 111 and erp-mafia/accounted's 2225, Claude Code's in elmohq/elmo's 684, Claude's
in claude-code's 30511, ChatGPT's in Altinity/altinity-mcp's 118. What else those have is supposed.
"""

from __future__ import annotations

from typing import Any

_PUBLIC: dict[str, Any] = {
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}

CLAUDE: dict[str, Any] = {
    **_PUBLIC,
    "client_id": "https://claude.ai/oauth/mcp-oauth-client-metadata",
    "client_name": "Claude",
    "client_uri": "https://claude.ai",
    "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
    "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer"],
}
CLAUDE_CODE: dict[str, Any] = {
    **_PUBLIC,
    "client_id": "https://claude.ai/oauth/claude-code-client-metadata",
    "client_name": "Claude Code",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
}
CHATGPT: dict[str, Any] = {
    **_PUBLIC,
    "client_id": "https://chatgpt.com/oauth/client.json",
    "client_uri": "https://chatgpt.com/",
    "redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect"],
    "token_endpoint_auth_method": "private_key_jwt",
    "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
    "client_name": "ChatGPT",
    "logo_uri": "https://persistent.oaistatic.com/sonic/misc/openai-logo.png",
    "token_endpoint_auth_signing_alg": "RS256",
    "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
}
DOCUMENTS = [CLAUDE, CLAUDE_CODE, CHATGPT]


def _registration(name: str, *redirect_uris: str, **more: Any) -> dict[str, Any]:
    return {**_PUBLIC, "client_name": name, "redirect_uris": list(redirect_uris), **more}


_VS_CODE = _registration(
    "Visual Studio Code", "https://insiders.vscode.dev/redirect", "https://vscode.dev/redirect", "http://127.0.0.1/",
    "http://127.0.0.1:33418/", client_uri="https://code.visualstudio.com", application_type="native",
    grant_types=["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
)  # fmt: skip
_CURSOR = _registration(
    "Cursor", "cursor://anysphere.cursor-mcp/oauth/callback", "https://www.cursor.com/agents/mcp/oauth/callback",
    "http://localhost:8787/callback",
)  # fmt: skip
_MCP_REMOTE = _registration(
    "MCP CLI Proxy", "http://localhost:3334/oauth/callback", scope="openid email profile",
    client_uri="https://github.com/modelcontextprotocol/mcp-cli", software_version="0.1.37",
    software_id="2e6dc280-f3c3-4e01-99a7-8181dbd1d23d",
)  # fmt: skip
_INSPECTOR = _registration(
    "MCP Inspector", "http://localhost:6274/oauth/callback", "http://localhost:6274/oauth/callback/debug", scope="",
    client_uri="https://github.com/modelcontextprotocol/inspector",
)  # fmt: skip
_CLAUDE = _registration(
    "Claude", "https://claude.ai/api/mcp/auth_callback", scope="read", token_endpoint_auth_method="client_secret_post"
)
_CLAUDE_CODE = _registration("Claude Code", "http://localhost:3118/callback", application_type="native")
_CHATGPT = _registration("ChatGPT", "https://chatgpt.com/connector/oauth/AbC-12_3")

#: Payloads of registrations, each with the redirect that is asked for afterwards.
REGISTRATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "Claude": (_CLAUDE, "https://claude.ai/api/mcp/auth_callback"),
    "Claude Code": (_CLAUDE_CODE, "http://localhost:3118/callback"),
    "ChatGPT": (_CHATGPT, "https://chatgpt.com/connector/oauth/AbC-12_3"),
    "VS Code": (_VS_CODE, "http://127.0.0.1:51712/"),
    "Cursor": (_CURSOR, "cursor://anysphere.cursor-mcp/oauth/callback"),
    "mcp-remote": (_MCP_REMOTE, "http://localhost:3334/oauth/callback"),
    "Inspector": (_INSPECTOR, "http://localhost:6274/oauth/callback"),
}

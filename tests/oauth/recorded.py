"""What clients publish and send, as recorded by others.

Documents: Claude's is quoted in rauthy's issue 1644, and without its client_uri in django-oauth-toolkit's 1855;
ChatGPT's in django-oauth-toolkit's 1845, and without its logo in 1857. Of Claude Code's only the redirects are quoted
(claude-code's issues 42301, 37767 and 64705); that it is public is said there, and the other members are supposed.

The others were fetched by others from their addresses: ChatGPT's of one app on 2026-08-06 (dinglebear-ai/labby,
crates/labby-auth/src/cimd.rs, with another id), VS Code's, Zed's and goose's on 2026-09-21 (cocoar-dev/modgud,
RealWorldClientMetadata.cs), Codex's on 2026-09-16 (in a test for cloudflare/workers-oauth-provider), Copilot CLI's on
2026-09-18 (copilot-cli's issue 4901, maybe in part), opencode's on 2026-09-07 (its source,
packages/console/app/src/routes/oauth/opencode/client.json.ts), Grok's on 2026-10-09.

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
CHATGPT_APP: dict[str, Any] = {
    **CHATGPT,
    "client_id": "https://chatgpt.com/oauth/test-client/client.json",
    "redirect_uris": ["https://chatgpt.com/connector/oauth/test-client"],
}
CODEX: dict[str, Any] = {
    **_PUBLIC,
    "client_id": "https://chatgpt.com/oauth/codex/client.json",
    "client_uri": "https://chatgpt.com/codex",
    "application_type": "native",
    "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
    "token_endpoint_auth_methods_supported": ["none"],
    "client_name": "Codex",
    "logo_uri": "https://persistent.oaistatic.com/sonic/misc/openai-logo.png",
}
VS_CODE: dict[str, Any] = {
    **_PUBLIC,
    "client_name": "Visual Studio Code",
    "logo_uri": "https://code.visualstudio.com/assets/branding/code-stable.png",
    "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    "application_type": "native",
    "client_id": "https://vscode.dev/oauth/client-metadata.json",
    "client_uri": "https://vscode.dev/product",
    "redirect_uris": ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"],
}
COPILOT_CLI: dict[str, Any] = {
    "client_id": "https://github.com/copilot/cli/client-metadata.json",
    "client_name": "GitHub Copilot CLI",
    "application_type": "native",
    "token_endpoint_auth_method": "none",
    "redirect_uris": ["http://127.0.0.1:33418/"],
}
ZED: dict[str, Any] = {
    **_PUBLIC,
    "client_id": "https://zed.dev/oauth/client-metadata.json",
    "client_name": "Zed",
    "client_uri": "https://zed.dev",
    "redirect_uris": ["http://127.0.0.1/callback"],
    "logo_uri": "https://cdn.zed.dev/images/logo-dark.png",
}
GOOSE: dict[str, Any] = {
    **_PUBLIC,
    "client_id": "https://goose-docs.ai/oauth/client-metadata.json",
    "client_name": "goose",
    "logo_uri": "https://goose-docs.ai/img/logo_light.png",
    "redirect_uris": ["http://127.0.0.1/oauth_callback", "http://[::1]/oauth_callback"],
    "code_challenge_methods_supported": ["S256"],
}
OPENCODE: dict[str, Any] = {
    **_PUBLIC,
    "client_id": "https://opencode.ai/oauth/opencode/client.json",
    "client_name": "opencode",
    "client_uri": "https://opencode.ai",
    "logo_uri": "https://opencode.ai/web-app-manifest-512x512.png",
    "application_type": "native",
    "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
    "token_endpoint_auth_methods_supported": ["none"],
}
GROK: dict[str, Any] = {
    **_PUBLIC,
    "client_id": "https://grok.com/oauth/mcp-client.json",
    "client_name": "Grok",
    "client_uri": "https://grok.com",
    "logo_uri": "https://grok.com/icon-512x512.png",
    "redirect_uris": [
        "https://grok.com/connectors-oauth-exchange-code/", "https://console.x.ai/connectors-oauth-exchange-code/",
    ],
}  # fmt: skip
DOCUMENTS = [CLAUDE, CLAUDE_CODE, CHATGPT, CODEX, VS_CODE, COPILOT_CLI, ZED, GOOSE, OPENCODE, GROK]


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
#: Of these the redirects are recorded: Claude desktop's in claude-code's issue 93671, Grok's in erp-mafia/accounted's
#: 2158, Antigravity's in antigravity-cli's 480, Copilot Studio's in tableau-mcp's 866, Le Chat's in odoo-mcp-pro's 21.
_REDIRECTS = {
    "Claude desktop": "claude://claude.ai/mcp-auth-callback/sdk",
    "Grok": "https://grok.com/connectors-oauth-exchange-code/",
    "Google Antigravity": "https://antigravity.google/oauth-callback",
    "Copilot Studio": "https://global.consent.azure-apim.net/redirect/cr7c9-5fngrok-5fff0481101d9c126c",
    "Le Chat": "https://callback.mistral.ai/v1/integrations_auth/oauth2_callback",
}
REGISTRATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "Claude": (_CLAUDE, "https://claude.ai/api/mcp/auth_callback"),
    "Claude Code": (_CLAUDE_CODE, "http://localhost:3118/callback"),
    "ChatGPT": (_CHATGPT, "https://chatgpt.com/connector/oauth/AbC-12_3"),
    "VS Code": (_VS_CODE, "http://127.0.0.1:51712/"),
    "Cursor": (_CURSOR, "cursor://anysphere.cursor-mcp/oauth/callback"),
    "mcp-remote": (_MCP_REMOTE, "http://localhost:3334/oauth/callback"),
    "Inspector": (_INSPECTOR, "http://localhost:6274/oauth/callback"),
    **{name: (_registration(name, redirect), redirect) for name, redirect in _REDIRECTS.items()},
}

// Mastra: tools of its MCP client, as its agents send them by the models of three providers.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { MCPClient } from "@mastra/mcp";

import { bodyOf, convertAll, fetch, fetchFrom, sentIn } from "./each.mjs";

const settings = { apiKey: "none", fetch };

const by = (model) => async (tool, transport) => {
    const server = { url: new URL("http://localhost/mcp"), fetch: fetchFrom(transport) };
    const client = new MCPClient({ id: `${model.provider} ${tool.name}`, servers: { mcp: server } });
    const tools = await client.listTools();
    const agent = new Agent({ id: "asked", name: "asked", instructions: "?", model, tools, maxRetries: 0 });
    return sentIn(await bodyOf(() => agent.generate("?")));
};

await convertAll({
    openai: by(createOpenAI(settings)("gpt-5")),
    google: by(createGoogleGenerativeAI(settings)("gemini-3-pro")),
    anthropic: by(createAnthropic(settings)("claude-sonnet-4-5")),
});

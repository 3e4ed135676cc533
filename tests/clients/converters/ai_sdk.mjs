// The AI SDK: tools of its MCP client, as its models of three providers send them.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createMCPClient } from "@ai-sdk/mcp";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText } from "ai";

import { bodyOf, convertAll, fetch, sentIn } from "./each.mjs";

const settings = { apiKey: "none", fetch };

const by = (model) => async (tool, transport) => {
    const client = await createMCPClient({ transport });
    const tools = await client.tools();
    return sentIn(await bodyOf(() => generateText({ model, tools, prompt: "?", maxRetries: 0 })));
};

await convertAll({
    openai: by(createOpenAI(settings)("gpt-5")),
    google: by(createGoogleGenerativeAI(settings)("gemini-3-pro")),
    anthropic: by(createAnthropic(settings)("claude-sonnet-4-5")),
});

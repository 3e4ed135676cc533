// What the converters have in common: tools come as JSON on stdin, and what was made of them leaves on stdout.

import { text } from "node:stream/consumers";

/** The answer of a server to requests, for a client that has no connection. */
class Answering {
    constructor(tools) {
        this.tools = tools;
    }

    async start() {}

    async send({ id, method, params }) {
        if (id === undefined) return;
        const results = {
            initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "listed", version: "1" } },
            "tools/list": { tools: this.tools },
        };
        const unknown = { error: { code: -32601, message: "Method not found" } };
        const answer = method in results ? { result: results[method] } : unknown;
        queueMicrotask(() => this.onmessage({ jsonrpc: "2.0", id, ...answer }));
    }

    async close() {
        this.onclose?.();
    }
}

/** The server of such a connection over HTTP. */
export const fetchFrom = (transport) => async (url, options) => {
    if (options.method !== "POST") return new Response(null, { status: 405 });
    const message = JSON.parse(options.body);
    if (message.id === undefined) return new Response(null, { status: 202 });
    return new Promise((resolve) => {
        transport.onmessage = (answer) => resolve(Response.json(answer));
        transport.send(message);
    });
};

/** What a fetch was asked to send, for models that must send nothing. */
export class Captured extends Error {
    constructor(body) {
        super("captured");
        this.body = body;
    }
}

export const fetch = async (url, options) => {
    throw new Captured(JSON.parse(options.body));
};

/** The body that `send` was about to post. */
export async function bodyOf(send) {
    try {
        await send();
    } catch (error) {
        for (let cause = error; cause; cause = cause.cause ?? cause.lastError) if (cause instanceof Captured) return cause.body;
        throw error;
    }
    throw new Error("nothing was sent");
}

/** What counts in the only tool of a body for OpenAI, Google or Anthropic. */
export function sentIn({ tools: [tool] }) {
    const declared = tool.functionDeclarations?.[0] ?? tool.function ?? tool;
    const schema = declared.parameters ?? declared.parametersJsonSchema ?? declared.input_schema;
    return { schema, ...("strict" in declared ? { strict: declared.strict } : {}) };
}

/** Print what each way makes of each tool; where it throws, the text of that as `error`. */
export async function convertAll(ways) {
    const tools = JSON.parse(await text(process.stdin));
    const made = {};
    for (const [way, convert] of Object.entries(ways)) {
        made[way] = {};
        for (const tool of tools) {
            try {
                made[way][tool.name] = await convert(tool, new Answering([structuredClone(tool)]));
            } catch (error) {
                made[way][tool.name] = { error: `${error.name}: ${error.message}` };
            }
        }
    }
    process.stdout.write(JSON.stringify(made), () => process.exit());
}

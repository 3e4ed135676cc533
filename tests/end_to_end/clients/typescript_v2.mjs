// A conversation through `Client` of @modelcontextprotocol/client 2.x, in the era that the job names.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { CAPABILITIES, main } from "./conversation.mjs";
import { GRPCClientTransport } from "./grpc_transport.mjs";

// How long the client keeps what does not say how long it is good for, which no legacy result can say.
const KEEP_MILLISECONDS = 3_600_000;

function transportOf(job) {
    if (job.transport === "stdio") {
        const [command, ...args] = job.command;
        return new StdioClientTransport({ command, args, env: job.env });
    }
    if (job.transport === "grpc") return new GRPCClientTransport(job);
    const requestInit = { headers: { Authorization: `Bearer ${job.token}` } };
    return new StreamableHTTPClientTransport(new URL(job.url), { requestInit });
}

await main(async (job, host) => {
    const mode = ["auto", "legacy"].includes(job.mode) ? job.mode : { pin: job.mode };
    const legacy = job.mode === "legacy";
    const client = new Client(
        { name: "tests", version: "1.0" },
        {
            capabilities: CAPABILITIES,
            versionNegotiation: { mode },
            defaultCacheTtlMs: legacy ? 0 : KEEP_MILLISECONDS,
        },
    );
    client.setRequestHandler("elicitation/create", async (request) => host.elicit(request));
    client.setRequestHandler("sampling/createMessage", async (request) => host.sample(request));
    client.setRequestHandler("roots/list", async () => host.listRoots());
    client.setNotificationHandler("notifications/message", (notification) => host.log(notification));
    client.setNotificationHandler("notifications/resources/updated", (notification) => host.take(notification));
    await client.connect(transportOf(job));
    const wanted = {};
    return {
        client,
        host,
        revision: () => client.getNegotiatedProtocolVersion(),
        call: (name, args, options) => client.callTool({ name, arguments: args, ...wanted }, options),
        setLogLevel: async (level) => {
            if (legacy) {
                await client.setLoggingLevel(level);
            } else {
                wanted._meta = { "io.modelcontextprotocol/logLevel": level };
            }
        },
        watch: async (uri) => {
            if (legacy) {
                await client.subscribeResource({ uri });
                return () => client.unsubscribeResource({ uri });
            }
            const subscription = await client.listen({ resourceSubscriptions: [uri] });
            return () => subscription.close();
        },
    };
});

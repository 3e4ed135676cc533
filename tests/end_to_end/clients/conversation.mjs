// What is said through a client of the official TypeScript SDK, whichever version it is of.
//
// Takes a job as JSON in the one argument, and writes what was seen as JSON.

import { createHash } from "node:crypto";

const MILLISECONDS = 60_000;

export const CAPABILITIES = { sampling: {}, elicitation: {}, roots: {} };

/** What stands around the client: its user, its model, its folders, and its eyes. */
export class Host {
    asked = [];
    logged = [];
    progress = [];
    told = [];
    waiting = null;
    #counted = Promise.withResolvers();

    elicit({ params }) {
        this.asked.push(`${params.message} ${python(Object.keys(params.requestedSchema.properties))}`);
        return { action: "accept", content: { name: "Ada" } };
    }

    sample({ params }) {
        const [message] = params.messages;
        const content = Array.isArray(message.content) ? message.content[0] : message.content;
        this.asked.push(content.text);
        return {
            role: "assistant",
            content: { type: "text", text: "Bonjour" },
            model: "parrot",
            stopReason: "endTurn",
        };
    }

    listRoots() {
        this.asked.push("roots");
        return { roots: [{ uri: "file:///home/ada", name: "home" }] };
    }

    log({ params }) {
        this.logged.push([params.level, params.logger, params.data]);
    }

    onProgress({ progress, total, message }) {
        this.progress.push([progress, total ?? null, message ?? null]);
        if (progress === total) this.#counted.resolve();
    }

    /** Resolves when the progress has come to its end. */
    get counted() {
        return this.#counted.promise;
    }

    take({ params }) {
        this.told.push(params.uri);
        this.waiting?.();
    }

    /** The next URI that a push names. */
    async nextTold() {
        if (this.told.length === 0) {
            await new Promise((resolve) => (this.waiting = resolve));
        }
        return this.told.shift();
    }
}

/** `said` in the way that Python writes a list of texts. */
function python(said) {
    return `[${said.map((text) => `'${text}'`).join(", ")}]`;
}

/** Whether a result is an error, and its text. */
function textOf(result) {
    const [content] = result.content;
    return [result.isError ?? false, content.text];
}

/** Close the watched ticket by way of another process, as somebody else's client does. */
async function changeElsewhere(job) {
    const params = { name: "desk_ticket_close", arguments: { ids: [job.watched] } };
    const response = await fetch(job.elsewhere, {
        method: "POST",
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
        headers: {
            Authorization: `Bearer ${job.token}`,
            Accept: "application/json, text/event-stream",
            "Content-Type": "application/json",
        },
    });
    const { result } = await response.json();
    if (result.isError) throw new Error(textOf(result)[1]);
}

async function read(client, uri) {
    const { contents } = await client.readResource({ uri });
    return contents[0].text;
}

/** The code and the message of the error that comes. */
async function errorOf(promise) {
    try {
        await promise;
    } catch (error) {
        // The older SDK writes the code into the message as well.
        return [error.code, error.message.replace(/^MCP error -\d+: /, "")];
    }
}

/** `talk` is `{ client, host, call(name, args, options), watch(uri), setLogLevel(), revision }` around a client. */
async function seeWhatNeedsNoSession(job, talk) {
    const { client } = talk;
    const own = `db://desk/ticket/${job.own}`;
    const server = client.getServerVersion();
    const seen = {
        server: [server.name, server.version],
        revision: talk.revision(),
        tools: (await client.listTools()).tools.map((tool) => tool.name),
        resources: (await client.listResources()).resources.map((resource) => resource.uri),
        templates: (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate),
        prompts: (await client.listPrompts()).prompts.map((prompt) => prompt.name),
    };
    const prompt = await client.getPrompt({ name: "reply", arguments: { ticket: String(job.own), tone: "long" } });
    seen.prompt = prompt.messages[0].content.text;
    const ref = { type: "ref/prompt", name: "reply" };
    const completed = await client.complete({ ref, argument: { name: "tone", value: "l" } });
    seen.completed = completed.completion.values;
    seen.record = JSON.parse(await read(client, own));
    seen.rules = await read(client, "desk://rules");
    seen.card = await read(client, `desk://tickets/${job.own}/card`);
    seen.found = textOf(await talk.call("find_records", { model: "desk.ticket", filter: { id: job.own } }));
    seen.refused = textOf(await talk.call("find_records", { model: "desk.tickte" }));
    seen.unknown = await errorOf(talk.call("no_such_tool", {}));
    seen.absent = await errorOf(read(client, "db://desk/ticket/0"));
    seen["too large"] = textOf(await talk.call("letter", { size: 5_000_000 }));
    seen.done = textOf(await talk.call("file_away", { lines: 100_000 }));
    return seen;
}

async function seeAll(job, talk) {
    const { client, host } = talk;
    const own = `db://desk/ticket/${job.own}`;
    const watched = `db://desk/ticket/${job.watched}`;
    const seen = await seeWhatNeedsNoSession(job, talk);
    seen.greeted = textOf(await talk.call("greet", {}));
    seen.translated = textOf(await talk.call("translate", { text: "Hello" }));
    seen.folders = textOf(await talk.call("folders", {}));
    seen.asked = host.asked;
    await talk.setLogLevel("info");
    const onprogress = (progress) => host.onProgress(progress);
    const [counted, acted] = await Promise.all([
        talk.call("count", { to: 3, ticket: job.own }, { onprogress }),
        host.counted.then(() => talk.call("desk_ticket_close", { ids: [job.own] })),
    ]);
    seen.counted = textOf(counted);
    seen.acted = textOf(acted);
    seen.again = JSON.parse(await read(client, own));
    seen.progress = host.progress;
    seen.logged = host.logged;
    if (job.elsewhere) {
        const before = JSON.parse(await read(client, watched)).status;
        const unwatch = await talk.watch(watched);
        await changeElsewhere(job);
        seen.told = await host.nextTold();
        await unwatch();
        seen.watched = [before, JSON.parse(await read(client, watched)).status];
    }
    return seen;
}

/** What came of calls with large results: whether each is an error, and a digest of its text. */
async function seeLarge(job, talk) {
    const seen = {};
    for (const [name, [tool, args]] of Object.entries(job.calls)) {
        const result = await talk.call(tool, args, args.steps ? { onprogress: () => {} } : {});
        const [content] = result.content;
        seen[name] = [result.isError ?? false, createHash("sha256").update(content.text).digest("hex")];
    }
    return seen;
}

/** Run the job with what `connect(job, host)` gives, and end the process: with a trace where it did not come to its end. */
export async function main(connect) {
    const late = setTimeout(() => {
        console.error("the conversation takes too long");
        process.exit(1);
    }, 4 * MILLISECONDS);
    const job = JSON.parse(process.argv[2]);
    const talk = await connect(job, new Host());
    const seen = await { all: seeAll, stateless: seeWhatNeedsNoSession, large: seeLarge }[job.task](job, talk);
    await talk.client.close();
    clearTimeout(late);
    process.stdout.write(JSON.stringify(seen));
}

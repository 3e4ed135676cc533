// A program that logs in with the official TypeScript SDK, 1.x or 2.x, knowing nothing but the URL.
//
// Takes a job as JSON in the one argument, and orders on stdin, a line for each. Writes lines of JSON: where its person
// has to go, and the texts that an order gave.

import { createServer } from "node:http";
import { createInterface } from "node:readline";

const COPIES = 5;

const job = JSON.parse(process.argv[2]);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = await sdk(job.version);

async function sdk(version) {
    if (version === "2") return import("@modelcontextprotocol/client");
    const parts = ["client/index.js", "client/streamableHttp.js", "client/auth.js"];
    const [client, http, auth] = await Promise.all(parts.map((part) => import(`@modelcontextprotocol/sdk/${part}`)));
    return { ...client, ...http, ...auth };
}

function say(said) {
    process.stdout.write(`${JSON.stringify(said)}\n`);
}

/** Where the program waits for its person to come back. */
class Loopback {
    #answers = [];
    #waiting = [];

    async open() {
        this.server = createServer((request, response) => {
            response.end("Back.");
            this.#take(new URL(request.url, "http://127.0.0.1").searchParams);
        });
        await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
        return `http://127.0.0.1:${this.server.address().port}/callback`;
    }

    #take(params) {
        const waiting = this.#waiting.shift();
        if (waiting) waiting(params);
        else this.#answers.push(params);
    }

    async next() {
        return this.#answers.shift() ?? (await new Promise((resolve) => this.#waiting.push(resolve)));
    }
}

/** What a program keeps, until it ends. */
class Provider {
    allTokens = [];

    constructor(redirectUrl) {
        this.redirectUrl = redirectUrl;
        this.clientMetadata = {
            client_name: "TypeScript",
            redirect_uris: [redirectUrl],
            grant_types: ["authorization_code", "refresh_token"],
            response_types: ["code"],
            token_endpoint_auth_method: "none",
        };
        if (job.document) this.clientMetadataUrl = job.document;
    }

    clientInformation() {
        return this.client;
    }

    saveClientInformation(client) {
        this.client = client;
    }

    tokens() {
        return this.allTokens.at(-1);
    }

    saveTokens(tokens) {
        this.allTokens.push(tokens);
    }

    // A call and the stream that opens itself again may find out at the same time that the login is over. The SDK then
    // begins to log in twice; the person goes once, and comes back with the code for the first verifier.
    redirectToAuthorization(url) {
        if (this.sent) return;
        this.sent = this.verifier;
        say({ visit: url.href });
    }

    saveCodeVerifier(verifier) {
        this.verifier = verifier;
    }

    codeVerifier() {
        return this.sent;
    }

    invalidateCredentials(scope) {
        if (scope === "all" || scope === "tokens") this.allTokens = [];
        if (scope === "all" || scope === "client") this.client = undefined;
    }

    copy() {
        return Object.assign(new Provider(this.redirectUrl), { client: this.client, allTokens: [...this.allTokens] });
    }
}

/** A connection that logs in as needed. */
class Program {
    constructor(loopback, provider) {
        this.loopback = loopback;
        this.provider = provider;
    }

    /** What `act` gives, once its person has logged in if that is needed. */
    async #loggedIn(act) {
        try {
            return await act();
        } catch (error) {
            if (!(error instanceof UnauthorizedError)) throw error;
            const params = await this.loopback.next();
            await this.transport.finishAuth(job.version === "2" ? params : params.get("code"));
            this.provider.sent = null;
            return act();
        }
    }

    async connect() {
        this.transport = new StreamableHTTPClientTransport(new URL(job.url), { authProvider: this.provider });
        const options = job.mode ? { versionNegotiation: { mode: job.mode } } : {};
        const client = new Client({ name: "tests", version: "1.0" }, options);
        await client.connect(this.transport);
        this.client = client;
    }

    async call() {
        if (!this.client) await this.#loggedIn(() => this.connect());
        return this.#call(job.tool, job.arguments);
    }

    /** As `call`, of a tool that changes data. */
    async act() {
        return this.#call(job.action, job.action_arguments);
    }

    async #call(name, args) {
        const result = await this.#loggedIn(() => this.client.callTool({ name, arguments: args }));
        return result.content[0].text;
    }
}

async function obey(order, program) {
    switch (order) {
        case "call":
            return [await program.call()];
        case "act":
            return [await program.act()];
        case "back":
            program.provider.allTokens.pop();
            return [];
        case "copies": {
            const copies = Array.from({ length: COPIES }, () => new Program(program.loopback, program.provider.copy()));
            return Promise.all(copies.map((copy) => copy.call()));
        }
        default:
            // It does not count the seconds of its token, and learns from a 401 that they are over.
            return [];
    }
}

const loopback = new Loopback();
const program = new Program(loopback, new Provider(await loopback.open()));
for await (const order of createInterface({ input: process.stdin })) {
    say({ texts: await obey(order, program) });
}
process.exit(0);

/* Boards of departures: each reads its query over MCP, by a WebSocket, and reads it again whenever it is told to. */
(() => {
    "use strict";

    const MOST_TOLD = 20;
    const LISTEN = "listen";
    const FIRST_WAIT = 1000;
    const LONGEST_WAIT = 30000;
    const BADGES = { on_time: "is-good", delayed: "is-note", cancelled: "is-bad" };
    const META = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { name: "board", version: "1" },
    };

    class Board {
        constructor(section) {
            this.texts = section.dataset;
            this.form = section.querySelector("form");
            this.parts = {};
            for (const part of section.querySelectorAll("[data-part]")) {
                this.parts[part.dataset.part] = part;
            }
            this.rows = new Map();
            this.reads = 0;
            this.wait = FIRST_WAIT;
            this.form.addEventListener("submit", (event) => {
                event.preventDefault();
                this.cancel(event.submitter);
            });
        }

        async connect() {
            this.say("connecting");
            try {
                const socket = new WebSocket(await this.url(), "mcp");
                socket.addEventListener("open", () => this.listen(socket));
                socket.addEventListener("message", (event) => this.take(socket, event.data));
                socket.addEventListener("close", () => this.retry());
            } catch {
                this.retry();
            }
        }

        retry() {
            this.say("lost");
            window.setTimeout(() => this.connect(), this.wait);
            this.wait = Math.min(2 * this.wait, LONGEST_WAIT);
        }

        /* Of one's own board the login cookie opens the socket. That of another user needs a ticket. */
        async url() {
            const url = new URL(this.texts.endpoint, window.location.href);
            url.protocol = url.protocol.replace("http", "ws");
            if (this.texts.tickets) {
                const body = new FormData(this.form);
                body.set("user", this.texts.user);
                const answer = await post(this.texts.tickets, body);
                url.searchParams.set("ticket", (await answer.json()).ticket);
            }
            return url;
        }

        listen(socket) {
            send(socket, LISTEN, "subscriptions/listen", {
                notifications: { resourceSubscriptions: [this.texts.uri] },
            });
        }

        /* The first reading waits until the server has said that it watches, so that no change is missed. */
        take(socket, text) {
            const message = JSON.parse(text);
            if (message.method !== undefined) {
                this.wait = FIRST_WAIT;
                this.say("live");
                this.tell(text);
                this.reads += 1;
                send(socket, this.reads, "resources/read", { uri: this.texts.uri });
            } else if (message.id === LISTEN) {
                socket.close();
            } else if (message.error !== undefined) {
                this.complain(message.error.message);
            } else if (message.id === this.reads) {
                this.show(JSON.parse(message.result.contents[0].text));
            }
        }

        show({ columns, rows }) {
            const isFirst = this.rows.size === 0;
            const flights = rows.map((row) => Object.fromEntries(row.map((value, at) => [columns[at], value])));
            const shown = new Map(flights.map((flight) => [flight.id, this.row(flight, isFirst)]));
            const isSame = [...shown.keys()].join() === [...this.rows.keys()].join();
            this.rows = shown;
            // Rows that stay where they are keep the focus of a button in them.
            if (!isSame) {
                this.parts.rows.replaceChildren(...shown.values());
            }
            this.complain("");
        }

        row(flight, isFirst) {
            const row = this.rows.get(flight.id) ?? this.emptyRow(flight);
            if (row.dataset.status !== flight.status) {
                const badge = row.querySelector(".mcp-badge");
                badge.textContent = flight.status.replace("_", " ");
                badge.className = `mcp-badge ${BADGES[flight.status] ?? ""}`;
                row.dataset.status = flight.status;
                row.classList.toggle("is-changed", !isFirst);
                const button = row.querySelector("button");
                if (button !== null) {
                    button.disabled = flight.status === "cancelled";
                }
            }
            return row;
        }

        emptyRow(flight) {
            const row = document.createElement("tr");
            const name = `${flight.carrier} ${flight.number}`;
            for (const text of [flight.departs_at.slice(11, 16), name, flight.origin, flight.destination__name]) {
                row.insertCell().textContent = text;
            }
            row.addEventListener("animationend", () => row.classList.remove("is-changed"));
            row.insertCell().append(element("span", "mcp-badge", ""));
            if ("mayCancel" in this.parts.rows.dataset) {
                const button = element("button", "mcp-button is-quiet", this.texts.cancel);
                button.name = "flight";
                button.value = flight.id;
                button.setAttribute("aria-label", `${this.texts.cancel} ${name}`);
                row.insertCell().append(button);
            }
            return row;
        }

        tell(text) {
            const item = document.createElement("li");
            item.append(element("pre", "", text));
            this.parts.told.prepend(item);
            while (this.parts.told.children.length > MOST_TOLD) {
                this.parts.told.lastElementChild.remove();
            }
        }

        async cancel(button) {
            try {
                await post(this.form.action, new FormData(this.form, button));
            } catch {
                this.complain(this.texts.refused);
            }
        }

        say(state) {
            this.parts.state.textContent = this.texts[state];
            this.parts.state.classList.toggle("is-good", state === "live");
        }

        complain(text) {
            this.parts.error.textContent = text;
            this.parts.error.hidden = text === "";
        }
    }

    const element = (name, classes, text) => {
        const made = document.createElement(name);
        made.className = classes;
        made.textContent = text;
        return made;
    };

    const post = async (url, body) => {
        const answer = await fetch(url, { method: "POST", body });
        if (!answer.ok) {
            throw new Error(answer.statusText);
        }
        return answer;
    };

    const send = (socket, id, method, params) => {
        socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta: META } }));
    };

    for (const section of document.querySelectorAll(".board")) {
        new Board(section).connect();
    }
})();

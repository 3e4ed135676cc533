/* What the pages of mcp_django can only do by a script: copy a text, name the values of lists on a phone, suggest
   values while somebody types, narrow a long list, and say beside a form what it gives. */
(() => {
    "use strict";

    document.documentElement.classList.add("mcp-scripted");

    const copy = async (button) => {
        const text = document.getElementById(button.dataset.copy).textContent.trim();
        try {
            await navigator.clipboard.writeText(text);
        } catch {
            // Without https there is no clipboard: the text is selected, to be copied by hand.
            window.getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
            return;
        }
        const label = button.textContent;
        button.textContent = button.dataset.copied;
        window.setTimeout(() => { button.textContent = label; }, 2000);
    };

    // Where each row of a list is a card, its values are named.
    document.addEventListener("DOMContentLoaded", () => {
        for (const list of document.querySelectorAll(".results > #result_list")) {
            const labels = [...list.tHead.rows[0].cells].map((cell) => cell.querySelector(".text")?.textContent.trim());
            for (const cell of list.querySelectorAll("tbody > tr > *")) {
                cell.dataset.label = labels[cell.cellIndex] ?? "";
            }
        }
    });

    document.addEventListener("click", (event) => {
        const button = event.target.closest("[data-copy]");
        if (button !== null) {
            event.preventDefault();
            copy(button);
        }
    });

    // A form with data-suggest is asked for values of the field that has the focus.
    let waiting, asking;

    const suggest = async (input) => {
        asking?.abort();
        asking = new AbortController();
        const body = new FormData(input.form);
        body.append("suggest", input.name);
        try {
            const response = await fetch(input.form.action, {method: "POST", body, signal: asking.signal});
            const {values} = response.ok ? await response.json() : {values: []};
            input.list.replaceChildren(...values.map((value) => new Option(value, value)));
        } catch {
            // The next key asks again.
        }
    };

    for (const kind of ["focusin", "input"]) {
        document.addEventListener(kind, (event) => {
            const input = event.target.closest("form[data-suggest] input[list]");
            // What was chosen from the list needs no other suggestion.
            if (input !== null && event.inputType !== "insertReplacementText") {
                window.clearTimeout(waiting);
                waiting = window.setTimeout(suggest, 200, input);
            }
        });
    }

    // Each line of the list that data-narrows names is hidden while it has not all of the words.
    const narrow = (input) => {
        const words = input.value.toLowerCase().split(/\s+/);
        for (const line of document.querySelectorAll(`#${CSS.escape(input.dataset.narrows)} :is(tbody tr, li)`)) {
            const text = line.textContent.toLowerCase();
            line.hidden = !words.every((word) => text.includes(word));
        }
    };

    document.addEventListener("input", (event) => {
        if (event.target.matches("[data-narrows]")) {
            narrow(event.target);
        }
    });

    document.addEventListener("keydown", (event) => {
        // The form is not sent from within it.
        if (event.key === "Enter" && event.target.matches("[data-narrows]")) {
            event.preventDefault();
        }
    });

    // A button with data-words asks what the form gives, and shows it where it stands. From then on each change does.
    let speaking;

    const speak = async (button) => {
        const place = document.getElementById(button.dataset.words);
        speaking?.abort();
        speaking = new AbortController();
        const {signal} = speaking;
        try {
            const response = await fetch(button.formAction, {method: "POST", body: new FormData(button.form), signal});
            const said = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("#mcp-words");
            place.replaceChildren(...(response.ok && said !== null ? said.childNodes : []));
            place.classList.toggle("mcp-card", place.hasChildNodes());
        } catch {
            // The next change asks again.
        }
    };

    document.addEventListener("click", (event) => {
        const button = event.target.closest("[data-words]");
        if (button !== null) {
            event.preventDefault();
            speak(button);
        }
    });

    document.addEventListener("change", (event) => {
        const button = event.target.form?.querySelector("[data-words]");
        if (button && document.getElementById(button.dataset.words).hasChildNodes()) {
            speak(button);
        }
    });
})();

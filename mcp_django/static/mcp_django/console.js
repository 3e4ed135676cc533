/* What the pages of mcp_django can only do by a script: copy a text, name the values of lists on a telephone, and
   suggest values while somebody types. */
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
})();

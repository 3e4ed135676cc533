/* The live page of the activity asks for its lines anew, as long as somebody looks at it and has not stopped it. */
(() => {
    "use strict";

    const EVERY = 3000;
    const lines = document.querySelector("[data-live]");
    const hold = document.querySelector("[data-live-hold]");
    const state = document.querySelector("[data-live-state]");
    let tag = "", isHeld = false;

    const ask = async () => {
        // Whoever has moved to a line by the keyboard would lose it.
        if (isHeld || document.hidden || lines.contains(document.activeElement)) {
            return;
        }
        // Where the login has ended, the answer leads to another page.
        const headers = {"If-None-Match": tag};
        const response = await fetch(lines.dataset.live, {headers, cache: "no-store", redirect: "error"});
        if (response.status !== 304 && !response.ok) {
            throw new Error(response.statusText);
        }
        if (response.ok && !isHeld) {
            tag = response.headers.get("ETag") ?? "";
            lines.innerHTML = await response.text();
        }
        state.textContent = isHeld ? state.dataset.held : "";
    };

    const again = async () => {
        try {
            await ask();
        } catch {
            state.textContent = state.dataset.gone;
        }
        window.setTimeout(again, EVERY);
    };

    hold.addEventListener("click", () => {
        isHeld = !isHeld;
        hold.setAttribute("aria-pressed", String(isHeld));
        state.textContent = isHeld ? state.dataset.held : "";
    });
    window.setTimeout(again, EVERY);
})();

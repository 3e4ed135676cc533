/* The live page of the activity asks for its lines anew, as long as somebody looks at it and has not paused it. */
(() => {
    "use strict";

    const EVERY = 3000;
    const lines = document.querySelector("[data-live]");
    const pause = document.querySelector("[data-live-pause]");
    const state = document.querySelector("[data-live-state]");
    let tag = "", isPaused = false;

    const ask = async () => {
        // Whoever has moved to a line by the keyboard would lose it.
        if (isPaused || document.hidden || lines.contains(document.activeElement)) {
            return;
        }
        // Where the login has ended, the answer leads to another page.
        const headers = {"If-None-Match": tag};
        const response = await fetch(lines.dataset.live, {headers, cache: "no-store", redirect: "error"});
        if (response.status !== 304 && !response.ok) {
            throw new Error(response.statusText);
        }
        if (response.ok && !isPaused) {
            tag = response.headers.get("ETag") ?? "";
            lines.innerHTML = await response.text();
        }
        state.textContent = isPaused ? state.dataset.paused : "";
    };

    const again = async () => {
        try {
            await ask();
        } catch {
            state.textContent = state.dataset.gone;
        }
        window.setTimeout(again, EVERY);
    };

    pause.addEventListener("click", () => {
        isPaused = !isPaused;
        pause.setAttribute("aria-pressed", String(isPaused));
        state.textContent = isPaused ? state.dataset.paused : "";
    });
    window.setTimeout(again, EVERY);
})();

/* What the pages of mcp_django can only do by a script: copy a text. */
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

    document.addEventListener("click", (event) => {
        const button = event.target.closest("[data-copy]");
        if (button !== null) {
            event.preventDefault();
            copy(button);
        }
    });
})();

// A button on each page that copies its Markdown, which `make docs` puts beside the page, for a language model.
document.addEventListener("DOMContentLoaded", async () => {
  const title = document.querySelector("article h1");
  const here = location.pathname.replace(/index\.html$/, "");
  const first = new URL(document.querySelector("a.md-logo").href).pathname.replace(/index\.html$/, "");
  const markdown = here === first ? `${first}README.md` : `${here.replace(/\/$/, "")}.md`;
  if (!title || !navigator.clipboard || !(await fetch(markdown, { method: "HEAD" })).ok) return;

  const button = document.createElement("button");
  button.className = "copy-page md-content__button";
  button.textContent = "Copy page";
  button.addEventListener("click", async () => {
    const text = await (await fetch(markdown)).text();
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  });
  title.before(button);
});

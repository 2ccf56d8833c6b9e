// The head of a page, with the choice of its theme: light, dark, or as the system has it.

const THEMES = ["auto", "light", "dark"];

function pageHead(...content) {
  return el("header", { class: "head" }, el("h1", {}, "tensorproof"), content, el("span", { class: "spring" }), themeButton());
}

/** Where a page may keep nothing, the choice lasts as long as the page. */
function rememberedTheme() {
  try {
    const theme = localStorage.getItem("tensorproof-theme");
    return THEMES.includes(theme) ? theme : "auto";
  } catch {
    return "auto";
  }
}

function setTheme(theme, button) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.textContent = `Theme: ${theme}`;
  button.dataset.theme = theme;
  try {
    localStorage.setItem("tensorproof-theme", theme);
  } catch {
    // The choice is not kept.
  }
  redrawGraphs();
}

function redrawGraphs() {
  for (const graph of document.querySelectorAll(".graph")) graph.graphView.draw(true);
}

function themeButton() {
  const button = el("button", { type: "button", class: "button theme" });
  button.addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(button.dataset.theme) + 1) % THEMES.length], button));
  setTheme(rememberedTheme(), button);
  return button;
}

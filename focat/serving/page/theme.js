// Light, dark, or as the system has it. A script of its own that runs before the page is drawn, so that nothing flashes.
(() => {
  const THEMES = ["auto", "light", "dark"];
  const NAMES = { auto: "as the system", light: "light", dark: "dark" };
  const root = document.documentElement;

  function stored() {
    try {
      return localStorage.getItem("focat-theme");
    } catch {
      return null; // storage is switched off
    }
  }

  function apply(theme) {
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    button?.setAttribute("aria-label", `Colours: ${NAMES[theme]}`);
    button?.setAttribute("title", `Colours: ${NAMES[theme]}`);
  }

  let theme = THEMES.includes(stored()) ? stored() : "auto";
  apply(theme);
  document.addEventListener("DOMContentLoaded", () => {
    apply(theme);
    document.getElementById("theme").addEventListener("click", () => {
      theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      try {
        localStorage.setItem("focat-theme", theme);
      } catch {
        // it holds until the page is closed
      }
      apply(theme);
    });
  });
})();

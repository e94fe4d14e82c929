// Before the first paint: that a script runs, and the theme that was chosen before.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const t = localStorage.getItem("drainproof-theme");
    if (t === "dark" || t === "light") root.dataset.theme = t;
  } catch { /* a file that may keep nothing */ }
})();

// Before the page is drawn: the theme that was chosen by hand, if one was.
(() => {
  try {
    const chosen = localStorage.getItem("pyworkers-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {} // storage is off: the system's theme counts
})();

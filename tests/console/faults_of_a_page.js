// Labels, ids, headings, width and contrast of a page: the sentences say what is wrong.
() => {
  const found = [];
  const named = (each) => each.labels?.length || each.getAttribute("aria-label") || each.textContent.trim();
  for (const each of document.querySelectorAll("input:not([type=hidden]), select, textarea, button"))
    if (!named(each)) found.push("no label: " + each.outerHTML);
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  if (new Set(ids).size !== ids.length) found.push("an id stands twice");
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the screen: " + document.documentElement.scrollWidth);
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((each) => each / 255)
    .map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (each) => {
    for (let at = each; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  for (const each of document.querySelectorAll("body *")) {
    if (each.closest("svg") || !each.offsetParent || ![...each.childNodes].some((one) => one.nodeType === 3 && one.data.trim())) continue;
    const [one, other] = [light(numbers(getComputedStyle(each).color)), light(behind(each))].sort((a, b) => b - a);
    if ((one + 0.05) / (other + 0.05) < 4.5) found.push("little contrast: " + each.outerHTML.slice(0, 120));
  }
  return found;
}

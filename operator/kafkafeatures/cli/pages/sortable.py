"""A table that readers can sort and filter, with the only script that a page has.

Pure. The page's Content-Security-Policy allows the script by its hash, so a browser runs no script that a name in a log
may contain. Without scripts the whole table is shown, without the tools. Called by `fleet.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkafeatures.cli.shell.html_parts import Html, table

STYLE = Html("""
[hidden] { display: none !important; }
.tools { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: end; margin: .6rem 0; }
.tools label { display: grid; color: var(--muted); font-size: .85rem; }
.tools input, .tools select { font: inherit; font-size: 1rem; color: var(--text); background: var(--page);
  border: 1px solid var(--muted); border-radius: .3rem; padding: .2rem .4rem; height: 2.2rem; max-width: 100%;
  box-sizing: border-box; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; text-align: left; }
th button::after { content: " \\2195"; color: var(--muted); }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
@media print, (min-width: 66.01rem) { th button { white-space: nowrap; } }
@media (min-width: 44.01rem) { .tools .by { display: none; } }
@media print { .tools { display: none; } th button::after { content: none; } }
""")
"""A narrow screen has no headings to click; a list selects the order there."""

SCRIPT = Html("""
for (const tools of document.querySelectorAll(".tools")) {
  const table = tools.nextElementSibling.querySelector("table"), rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells], [find, only, by] = tools.querySelectorAll("input, select");
  const words = (row, at) => row.cells[at].textContent.trim();
  const order = new Intl.Collator("en", { numeric: true });
  const filter = () => {
    const wanted = find.value.trim().toLowerCase();
    for (const row of rows) {
      const fits = !only.value || words(row, Number(only.dataset.column)) === only.value;
      row.hidden = !fits || !row.textContent.toLowerCase().includes(wanted);
    }
    tools.querySelector("output").value = `${rows.filter(row => !row.hidden).length} of ${rows.length}`;
  };
  const sort = (at, isDown) => {
    rows.sort((one, other) => (isDown ? -1 : 1) * order.compare(words(one, at), words(other, at)));
    table.tBodies[0].append(...rows);
    heads.forEach(head => head.removeAttribute("aria-sort"));
    heads[at].setAttribute("aria-sort", isDown ? "descending" : "ascending");
    by.value = at;
  };
  heads.forEach((head, at) => {
    const button = document.createElement("button"), name = head.textContent;
    Object.assign(button, { type: "button", textContent: name });
    button.addEventListener("click", () => sort(at, head.getAttribute("aria-sort") === "ascending"));
    head.replaceChildren(button);
    by.add(new Option(name, at));
  });
  find.addEventListener("input", filter);
  only.addEventListener("change", filter);
  by.addEventListener("change", () => sort(Number(by.value), false));
  by.value = only.dataset.column;
  filter();
  tools.hidden = false;
}
""")


def sortable(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], column: str, values: Iterable[str]
) -> Html:
    """A table with its tools above. `column`: heading of the column that readers can filter by one of its `values`."""
    return Html(
        '<div class="tools" hidden><label>Filter<input type="search"></label>'
        '<label>{}<select data-column="{}"><option value="">all</option>'
        '{}</select></label><label class="by">Sort by<select></select></label><output></output></div>\n{}'
    ).format(
        column,
        list(head).index(column),
        Html().join(map(Html("<option>{}</option>").format, values)),
        table(caption, head, rows),
    )

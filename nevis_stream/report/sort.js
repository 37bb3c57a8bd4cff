// Sorts a table's body by the column whose header button is pressed; cells without a value stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const ascending = header.getAttribute("aria-sort") !== "ascending";
      headers.forEach((other) => other.setAttribute("aria-sort", "none"));
      header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const body = table.tBodies[0];
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const compare = (a, b) => {
        if ((a === "") !== (b === "")) return a === "" ? 1 : -1;
        const numbers = a !== "" && b !== "" && !isNaN(a) && !isNaN(b);
        const order = numbers ? a - b : a.localeCompare(b);
        return ascending ? order : -order;
      };
      const rows = [...body.rows].map((row) => [key(row), row]);
      rows.sort(([a], [b]) => compare(a, b)).forEach(([, row]) => body.append(row));
    });
  });
}

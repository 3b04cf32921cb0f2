// Tables as files of comma-separated values.

/** A cell. Spreadsheets do not parse it as a formula, even if an agent chose its text. */
function cell(s: string): string {
  const safe = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/.test(s) ? "'" + s : s;
  return `"${safe.replaceAll('"', '""')}"`;
}

/** The text of a file. */
export const csv = (rows: string[][]): string => rows.map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";

/** Has the browser save a file. */
export function save(name: string, rows: string[][]): void {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([csv(rows)], { type: "text/csv" }));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

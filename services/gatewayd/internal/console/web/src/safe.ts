// Text that agents, files and programs chose. It is shown in text nodes alone; here, characters that cannot be seen, or that
// change the order of others, are made visible, so that what is shown is what it is.

const hidden =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{110bd}\u{110cd}\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

/** Text of several lines. */
export function text(s: string): string {
  return s.replace(/\r\n/g, "\n").replace(hidden, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
}

/** Text on one line, of at most max characters. */
export function line(s: string, max = 200): string {
  const flat = text(s.slice(0, 4 * max)).replace(/\s+/g, " ").trim();
  return flat.length > max ? flat.slice(0, max) + "…" : flat;
}

const escapes = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;

/** What a command printed, without its escape sequences. */
export function printed(s: string): string {
  return text(s.replace(escapes, "").replace(/\r+\n/g, "\n").replace(/[^\n]*\r/g, ""));
}

/** The address of a page, if it is one of the web: in ASCII, so that letters that look like others are seen for what they are. */
export function address(s: string): string | undefined {
  try {
    const u = new URL(s);
    return u.protocol === "https:" || u.protocol === "http:" ? u.href : undefined;
  } catch {
    return undefined;
  }
}

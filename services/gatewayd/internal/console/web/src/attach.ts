// Files that go with a prompt, as the blocks that an agent takes.
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { AgentCapabilities } from "@acphost/proto/supervisor/v1/agent";
import type { ContentBlockSchema } from "@acphost/proto/supervisor/v1/content";
import { line } from "./safe";

/** A block as it is given to a call. */
export type Block = MessageInitShape<typeof ContentBlockSchema>;
type Content = NonNullable<Exclude<Block, { $typeName: unknown }>["content"]>;

export interface Attachment {
  /** Its own, and that of no other. */
  id: number;
  name: string;
  size: number;
  kind: "image" | "audio" | "text" | "file";
  block: Block;
}

/** The gateway takes requests of 16 MiB. There must be room for words, and for what is around all that. */
export const maxFiles = 10;
export const maxBytes = 12 << 20;

/** A size in bytes, for people. */
export function size(bytes: number): string {
  return bytes < 1 << 10 ? `${bytes} bytes` : bytes < 1 << 20 ? `${(bytes / (1 << 10)).toFixed(1)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

/** How many bytes a text has on its way. */
export const lengthOf = (words: string): number => new TextEncoder().encode(words).length;

let last = 0;

/** Makes an attachment of a file, next to others. It throws an Error with the reason why it cannot be sent. */
export async function attach(file: File, others: readonly Attachment[], can: AgentCapabilities | undefined): Promise<Attachment> {
  const name = line(file.name, 80) || "The file";
  if (others.length >= maxFiles) throw new Error(`${name} is not attached: a prompt takes at most ${maxFiles} files.`);
  const room = maxBytes - others.reduce((sum, a) => sum + a.size, 0);
  const fits = (bytes: number) => {
    if (bytes > room) throw new Error(`${name} is not attached: it has ${size(bytes)}, and the files of a prompt have at most ${size(maxBytes)} together.`);
  };
  fits(file.size); // before it is read
  const type = file.type.toLowerCase();
  // What is written as text is text for an agent, too.
  const kind = type.startsWith("image/") && !type.includes("svg") ? "image" : type.startsWith("audio/") ? "audio" : "file";
  const refuse = (what: string, capability: string) => new Error(`${name} is not attached: this agent takes no ${what} (promptCapabilities.${capability}).`);
  if (!can) throw new Error(`${name} is not attached: what this agent takes is not known yet. Try again.`);
  if (kind === "image" && !can.promptImage) throw refuse("images", "image");
  if (kind === "audio" && !can.promptAudio) throw refuse("sounds", "audio");
  if (kind === "file" && !can.promptEmbeddedContext) throw refuse("files in prompts", "embeddedContext");
  let data: Uint8Array;
  try {
    data = new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new Error(`${name} is not attached: it cannot be read. If it is a folder, choose the files in it.`);
  }
  if (data.length === 0) throw new Error(`${name} is not attached: it is empty.`);
  fits(data.length);
  const id = ++last;
  const made = (content: Content, as: Attachment["kind"]): Attachment => ({ id, name: file.name, size: data.length, kind: as, block: { content } });
  if (kind !== "file") return made({ case: kind, value: { data, mimeType: type } }, kind);
  const uri = `attachment:///${id}/${encodeURIComponent(file.name.replace(/[\ud800-\udfff]/gu, "\ufffd"))}`;
  const text = textIn(data);
  return text !== undefined
    ? made({ case: "resource", value: { uri, mimeType: type || "text/plain", contents: { case: "text", value: text } } }, "text")
    : made({ case: "resource", value: { uri, mimeType: type || "application/octet-stream", contents: { case: "blob", value: data } } }, "file");
}

/** The text that bytes are; undefined: they are none. */
function textIn(data: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

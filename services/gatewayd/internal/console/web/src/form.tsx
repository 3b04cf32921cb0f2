// A form that an agent asks to be filled in: text, numbers, choices, yes and no, as ACP's elicitation has them.
import { useMemo, useState } from "preact/hooks";
import { line, text } from "./safe";

interface Choice { value: string; title: string }
interface Field {
  name: string;
  title: string;
  description: string;
  kind: "text" | "number" | "boolean" | "one" | "many";
  integer: boolean;
  choices: Choice[];
  required: boolean;
  initial: unknown;
  format: string;
}

type Json = Record<string, unknown>;
const record = (v: unknown): Json => (v && typeof v === "object" && !Array.isArray(v) ? (v as Json) : {});
const string = (v: unknown): string => (typeof v === "string" ? v : "");

function choicesOf(s: Json): Choice[] {
  const many = Array.isArray(s["oneOf"]) ? s["oneOf"] : Array.isArray(s["anyOf"]) ? s["anyOf"] : undefined;
  if (many) return many.map((c) => ({ value: string(record(c)["const"]), title: string(record(c)["title"]) || string(record(c)["const"]) }));
  const names = Array.isArray(s["enumNames"]) ? s["enumNames"] : [];
  return (Array.isArray(s["enum"]) ? s["enum"] : []).map((v, i) => ({ value: String(v), title: string(names[i]) || String(v) }));
}

export function fieldsOf(schema: string): Field[] | undefined {
  try {
    const s = record(JSON.parse(schema));
    const required = Array.isArray(s["required"]) ? s["required"] : [];
    return Object.entries(record(s["properties"])).map(([name, of]) => {
      const f = record(of);
      const type = string(f["type"]);
      const items = type === "array" ? record(f["items"]) : f;
      const choices = choicesOf(items);
      return {
        name,
        title: string(f["title"]) || name,
        description: string(f["description"]),
        kind: type === "array" ? "many" : choices.length ? "one" : type === "boolean" ? "boolean" : type === "number" || type === "integer" ? "number" : "text",
        integer: type === "integer",
        choices,
        required: required.includes(name),
        initial: f["default"],
        format: string(f["format"]),
      };
    });
  } catch {
    return undefined;
  }
}

const types: Record<string, "email" | "url" | "date"> = { email: "email", uri: "url", date: "date" };

export function Form({ schema, disabled, accept, decline }: { schema: string; disabled: boolean; accept: (json: string) => void; decline: () => void }) {
  const fields = useMemo(() => fieldsOf(schema), [schema]);
  const [prefix] = useState(() => "f" + Math.random().toString(36).slice(2) + "-");
  if (!fields) return <p class="error">This form cannot be read. Answer it at another client.</p>;
  const submit = (e: Event) => {
    e.preventDefault();
    const data = new FormData(e.currentTarget as HTMLFormElement);
    const out = Object.create(null) as Json; // an agent may call a field __proto__
    fields.forEach((f, i) => {
      const key = String(i);
      const value = data.get(key);
      if (f.kind === "boolean") out[f.name] = value !== null;
      else if (f.kind === "many") out[f.name] = data.getAll(key);
      else if (typeof value === "string" && value !== "") out[f.name] = f.kind === "number" ? Number(value) : value;
    });
    accept(JSON.stringify(out));
  };
  return (
    <form onSubmit={submit}>
      {fields.map((f, i) => {
        const id = prefix + i;
        const described = f.description ? id + "d" : undefined;
        const note = f.description && <p class="dim" id={described}>{text(f.description)}</p>;
        const label = line(f.title) + (f.required ? " *" : "");
        const common = { id, name: String(i), disabled, "aria-describedby": described };
        switch (f.kind) {
          case "boolean":
            return <div key={f.name}><label><input {...common} type="checkbox" defaultChecked={f.initial === true} /> {label}</label>{note}</div>;
          case "many": {
            const chosen = Array.isArray(f.initial) ? f.initial : [];
            return (
              <fieldset key={f.name}><legend>{label}</legend>{note}
                {f.choices.map((c) => (
                  <label key={c.value}><input type="checkbox" name={String(i)} value={c.value} disabled={disabled} defaultChecked={chosen.includes(c.value)} /> {line(c.title)}</label>
                ))}
              </fieldset>
            );
          }
          case "one":
            return (
              <div key={f.name}><label for={id}>{label}</label>
                <select {...common} required={f.required}>
                  {!f.required || !f.initial ? <option value="">–</option> : null}
                  {f.choices.map((c) => <option key={c.value} value={c.value} selected={c.value === f.initial}>{line(c.title)}</option>)}
                </select>{note}</div>
            );
          default:
            return (
              <div key={f.name}><label for={id}>{label}</label>
                <input {...common} required={f.required} autocomplete="off" type={(f.kind === "number" ? "number" : (types[f.format] ?? "text")) as "text"} {...(f.kind === "number" ? { step: f.integer ? "1" : "any" } : {})} defaultValue={f.initial === undefined ? "" : String(f.initial)} />{note}</div>
            );
        }
      })}
      <div class="options">
        <button type="submit" class="allow" disabled={disabled}>Send</button>
        <button type="button" class="reject" disabled={disabled} onClick={decline}>I do not want to</button>
      </div>
    </form>
  );
}

// The gateway: who this browser is signed in as, and the supervisor's services.
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { SessionService } from "@acphost/proto/supervisor/v1/session";
import { ApprovalService } from "@acphost/proto/supervisor/v1/approval";
import { SupervisorStateService } from "@acphost/proto/supervisor/v1/state";
import { AgentService } from "@acphost/proto/supervisor/v1/agent";
import { SupervisorControlService } from "@acphost/proto/supervisor/v1/control";
import { DecisionService } from "@acphost/proto/supervisor/v1/decision";

/** Who this browser is signed in as. */
export interface Who {
  state: "in" | "out" | "waiting" | "stale";
  id?: string;
  role?: string;
  expires?: string;
  code?: string;
  secret?: string;
  provider?: string;
  url?: string;
}

const header = "Acphost-Console";
const kept = "acphost-console";

/** The page's half of what shows that this browser is signed in. Tabs share it. */
export const secret = {
  get: (): string => localStorage.getItem(kept) ?? "",
  set: (s: string): void => localStorage.setItem(kept, s),
  clear: (): void => localStorage.removeItem(kept),
};

/** Asks the console's own part of the gateway. */
export async function ask(what: string, body: object = {}): Promise<Who> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (secret.get()) headers[header] = secret.get();
  const res = await fetch(`/console/api/${what}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error((await res.text()).trim() || res.statusText);
  return (await res.json()) as Who;
}

const leaving = "acphost-signing-in-oidc";

/** Goes to the provider's page to sign in there. What this page keeps meanwhile shows that it was this one. */
export async function leave(): Promise<void> {
  const { secret: mine, url } = await ask("oidc/begin");
  sessionStorage.setItem(leaving, JSON.stringify({ mine, hash: location.hash }));
  location.assign(url ?? "");
}

/** Signs in by what the provider's page has sent this browser back with; undefined: it has not. The address keeps none of it. */
export async function comeBack(): Promise<Who | undefined> {
  if (location.pathname !== "/console/oidc/callback") return undefined;
  const said = new URLSearchParams(location.search);
  const { mine, hash } = JSON.parse(sessionStorage.getItem(leaving) ?? "{}") as { mine?: string; hash?: string };
  sessionStorage.removeItem(leaving);
  history.replaceState(null, "", `/console/${hash ?? ""}`);
  if (!said.get("code")) throw new Error("The provider did not sign you in. Try again, or sign in by a code or a token.");
  const who = await ask("oidc/finish", { secret: mine, code: said.get("code"), echo: said.get("state") });
  secret.set(who.secret ?? "");
  return who;
}

const signed: Interceptor = (next) => (req) => {
  req.header.set(header, secret.get());
  return next(req);
};

const transport = createConnectTransport({ baseUrl: location.origin, useBinaryFormat: true, interceptors: [signed] });

export const sessions = createClient(SessionService, transport);
export const approvals = createClient(ApprovalService, transport);
export const state = createClient(SupervisorStateService, transport);
export const agents = createClient(AgentService, transport);
export const control = createClient(SupervisorControlService, transport);
export const decisions = createClient(DecisionService, transport);

/** Whether a role may do what another one is needed for. */
export function may(role: string | undefined, need: "viewer" | "approver" | "operator"): boolean {
  const all = ["viewer", "approver", "operator"];
  return all.indexOf(role ?? "") >= all.indexOf(need);
}

/** What went wrong, for people. */
export function problem(err: unknown): string {
  return err instanceof ConnectError ? err.rawMessage : err instanceof Error ? err.message : String(err);
}

type Listener = () => void;

/** Whether the gateway can be reached, for the line at the page's top. */
export const link = {
  down: new Set<object>(),
  out: false,
  listeners: new Set<Listener>(),
  tell(): void {
    for (const l of this.listeners) l();
  },
};

const streams = new Set<AbortController>();

/** Lets go of a connection that may be dead without saying so: each stream begins again. */
export function renew(): void {
  for (const s of streams) s.abort();
}

/** How long a hidden page keeps its streams, in ms. */
const hiddenFor = 30_000;

function visible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (!document.hidden || signal.aborted) return resolve();
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

/** Lets the browser draw and take keys. */
const breathe = (): Promise<void> =>
  new Promise((resolve) => {
    const c = new MessageChannel();
    c.port1.onmessage = () => {
      c.port1.close();
      resolve();
    };
    c.port2.postMessage(0);
  });

/**
 * Reads a stream until signal is aborted, again and again: when it breaks, it begins anew. take gets each message; again is
 * called before each beginning. A hidden page closes its streams soon, because browsers have few connections.
 */
export async function watch<T>(
  signal: AbortSignal,
  begin: (signal: AbortSignal) => AsyncIterable<T>,
  take: (message: T) => void,
  failed?: (err: unknown) => boolean,
): Promise<void> {
  const me = {};
  let wait = 250;
  while (!signal.aborted) {
    await visible(signal);
    const once = new AbortController();
    const stop = () => once.abort();
    signal.addEventListener("abort", stop);
    streams.add(once);
    let timer = 0;
    const hide = () => {
      clearTimeout(timer);
      if (document.hidden) timer = window.setTimeout(stop, hiddenFor);
    };
    document.addEventListener("visibilitychange", hide);
    let ended: unknown;
    try {
      let since = performance.now();
      for await (const m of begin(once.signal)) {
        if (link.down.delete(me)) link.tell();
        wait = 250;
        take(m);
        // Messages that have come already are read without a pause, so the pause is ours to make.
        if (performance.now() - since > 8) {
          await breathe();
          since = performance.now();
        }
      }
    } catch (err) {
      ended = err;
    } finally {
      signal.removeEventListener("abort", stop);
      document.removeEventListener("visibilitychange", hide);
      clearTimeout(timer);
      streams.delete(once);
    }
    if (signal.aborted) break;
    if (ended instanceof ConnectError && ended.code === Code.Unauthenticated) {
      link.out = true;
      link.tell();
      break;
    }
    if (ended instanceof ConnectError && [Code.PermissionDenied, Code.Unimplemented, Code.NotFound, Code.InvalidArgument].includes(ended.code)) {
      if (!failed?.(ended)) break;
    } else if (ended !== undefined && !once.signal.aborted) {
      link.down.add(me);
      link.tell();
      failed?.(ended);
    }
    await new Promise((r) => setTimeout(r, once.signal.aborted ? 0 : wait));
    wait = Math.min(wait * 2, 5_000);
  }
  if (link.down.delete(me)) link.tell();
}

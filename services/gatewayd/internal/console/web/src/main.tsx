// The console: who is signed in, and which view is shown. The address's fragment names the view, so that it never leaves the browser.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, comeBack, link, problem, renew, secret, type Who } from "./api";
import { Board } from "./board";
import { Inbox, useKeys } from "./inbox";
import { Policy } from "./policy";
import { questions, useQuestions } from "./questions";
import { SessionView } from "./session";
import { SignIn } from "./signin";
import { Usage } from "./usage";

/** How often it is asked whether the gateway is there, in ms: a connection can be dead without saying so. */
const pulse = 20_000;

function useHash(): string[] {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").map((s) => { try { return decodeURIComponent(s); } catch { return s; } });
  const [parts, setParts] = useState(read);
  useEffect(() => {
    const changed = () => setParts(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parts;
}

function App() {
  const [who, setWho] = useState<Who>();
  const [failed, setFailed] = useState("");
  useEffect(() => {
    const known = (): Promise<Who> | Who => (secret.get() ? ask("who") : { state: "out" });
    comeBack()
      .catch((err: unknown) => void setFailed(problem(err)))
      .then((came) => came ?? known())
      .then(setWho, () => setWho({ state: "out" }));
  }, []);
  // Another tab has signed out, or in.
  useEffect(() => {
    const changed = () => void ask("who").then(setWho, () => undefined);
    addEventListener("storage", changed);
    return () => removeEventListener("storage", changed);
  }, []);
  if (!who) return null;
  if (who.state !== "in") return <SignIn failed={failed} entered={(w) => { link.out = false; setWho(w); }} />;
  return <Shell who={who} left={() => { secret.clear(); setWho({ state: "out" }); }} />;
}

function Shell({ who, left }: { who: Who; left: () => void }) {
  const role = who.role ?? "viewer";
  const [view, ...rest] = useHash();
  const [, again] = useState(0);
  const q = useQuestions();
  useKeys();

  useEffect(() => {
    questions.run(role);
    const told = () => (link.out ? left() : again((n) => n + 1));
    link.listeners.add(told);
    const me = {};
    const look = async () => {
      if (document.hidden) return;
      try {
        const got = await ask("who");
        if (got.state !== "in") return left();
        if (link.down.delete(me)) again((n) => n + 1);
      } catch {
        if (!link.down.has(me)) renew();
        link.down.add(me);
        again((n) => n + 1);
      }
    };
    const tick = setInterval(() => void look(), pulse);
    const online = () => { renew(); void look(); };
    addEventListener("online", online);
    return () => {
      questions.stop();
      link.listeners.delete(told);
      link.down.delete(me);
      clearInterval(tick);
      removeEventListener("online", online);
    };
  }, [who.id, role]);

  const waiting = q.waiting().length;
  useEffect(() => {
    document.title = (waiting ? `(${waiting}) ` : "") + "acphost console";
  }, [waiting]);

  const tabs: [string, string][] = [["inbox", waiting ? `Inbox (${waiting})` : "Inbox"], ["board", "Board"], ["policy", "Policy"], ["usage", "Usage"]];
  const at = view || "inbox";
  return (
    <>
      <nav aria-label="Views">
        {tabs.map(([id, name]) => <a key={id} href={`#/${id}`} {...(at === id ? { "aria-current": "page" as const } : {})}>{name}</a>)}
        <span class="role dim">{role}</span>
        <button type="button" onClick={() => void ask("out").then(left, left)}>Sign out</button>
      </nav>
      {link.down.size > 0 && <p class="down" role="status">The gateway or its supervisor cannot be reached. Trying again…</p>}
      {at === "session" && rest.length >= 2 ? <SessionView key={rest.join("/")} agentId={rest[0]!} sessionId={rest[1]!} role={role} /> : at === "board" ? <Board /> : at === "policy" ? <Policy role={role} /> : at === "usage" ? <Usage /> : <Inbox role={role} />}
    </>
  );
}

render(<App />, document.getElementById("app")!);

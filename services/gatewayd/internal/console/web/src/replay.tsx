// What another rule file would have decided of what is recorded.
import { useEffect, useRef, useState } from "preact/hooks";
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Verdict } from "@acphost/proto/permission/v1/permission";
import { Severity } from "@acphost/proto/permission/v1/policy_service";
import type { ReplayPolicyResponse } from "@acphost/proto/supervisor/v1/decision";
import type { Session } from "@acphost/proto/supervisor/v1/state";
import { decisions, problem } from "./api";
import { agentOf, Decided } from "./decisions";
import { line, text } from "./safe";

/** How large a rule file may be, in bytes; and how far back a replay goes, by its name, in hours. */
const largest = 1 << 20;
const spans: [string, number][] = [["an hour", 1], ["a day", 24], ["a week", 168], ["all that is recorded", 0]];

export function Replay({ sessions }: { sessions: Session[] }) {
  const [file, setFile] = useState("");
  const [hours, setHours] = useState(0);
  const [limit, setLimit] = useState(10_000);
  const [running, setRunning] = useState<AbortController>();
  const [result, setResult] = useState<ReplayPolicyResponse>();
  const [error, setError] = useState("");
  const last = useRef<AbortController>(undefined);
  useEffect(() => () => last.current?.abort(), []);

  const choose = async (chosen: File | undefined) => {
    if (!chosen) return;
    if (chosen.size > largest) return setError(`${line(chosen.name)} has ${chosen.size} bytes; a rule file may have ${largest}.`);
    setError("");
    setFile(await chosen.text());
  };
  const replay = async (e: Event) => {
    e.preventDefault();
    const policy = new TextEncoder().encode(file);
    setResult(undefined);
    setError("");
    if (policy.length > largest) return setError(`The rule file has ${policy.length} bytes; it may have ${largest}.`);
    const mine = (last.current = new AbortController());
    setRunning(mine);
    try {
      setResult(await decisions.replayPolicy({ policy, limit, ...(hours && { since: timestampFromMs(Date.now() - hours * 3_600_000) }) }, { signal: mine.signal }));
    } catch (err) {
      if (!mine.signal.aborted) setError(problem(err));
    }
    setRunning(undefined);
  };
  return (
    <section aria-labelledby="replay">
      <h2 id="replay">Try a rule file on the record</h2>
      <p class="dim">The recorded actions are decided anew by this file alone, and nothing is changed. The answers of people and the administrator's rules do not count.</p>
      <form onSubmit={(e) => void replay(e)}>
        <div><label for="replay-file">Choose a file</label> <input id="replay-file" type="file" accept=".yaml,.yml,text/yaml" onChange={(e) => void choose(e.currentTarget.files?.[0])} /></div>
        <div>
          <label for="replay-policy">or paste it, or the name of a ready-made policy</label>
          <textarea id="replay-policy" class="rules" rows={8} spellcheck={false} value={file} onInput={(e) => setFile(e.currentTarget.value)} />
        </div>
        <div class="choices">
          <label>Decisions of <select value={hours} onChange={(e) => setHours(Number(e.currentTarget.value))}>{spans.map(([name, h]) => <option key={h} value={h}>{name}</option>)}</select></label>
          <label>at most <select value={limit} onChange={(e) => setLimit(Number(e.currentTarget.value))}>{[1_000, 10_000, 100_000].map((n) => <option key={n} value={n}>{n.toLocaleString("en")}</option>)}</select></label>
          {running ? <button type="button" onClick={() => running.abort()}>Stop</button> : <button type="submit" disabled={!file.trim()}>Replay</button>}
        </div>
      </form>
      {running && <p role="status">Deciding anew…</p>}
      {error && <p class="error" role="alert">{error}</p>}
      {result && <Result r={result} sessions={sessions} />}
    </section>
  );
}

function Result({ r, sessions }: { r: ReplayPolicyResponse; sessions: Session[] }) {
  return (
    <div class="replayed">
      {r.findings.length > 0 && (
        <ul class="findings">
          {r.findings.map((f, i) => (
            <li key={i} class={f.severity === Severity.WARNING ? "reason" : "error"}>
              {f.line > 0 && `line ${f.line}, column ${Math.max(1, f.column)}: `}{f.severity === Severity.WARNING ? "warning" : "error"}: {f.rule && !f.message.includes(f.rule) && `rule ${line(f.rule)}: `}
              <span class="lines">{text(f.message.slice(0, 2_000))}</span>
            </li>
          ))}
        </ul>
      )}
      <p role="status"><b>{r.summary ? line(r.summary, 500) : "The file does not load: nothing was decided by it."}</b></p>
      {r.oldest && <p class="dim">The oldest of them is of {timestampDate(r.oldest).toLocaleString()}.{r.unread > 0 && ` ${r.unread} lines of the record could not be read.`}{r.differ > r.differences.length && ` The newest ${r.differences.length} differences are shown.`}</p>}
      <ol class="cards one" reversed aria-label="Differences, the newest first">
        {r.differences.toReversed().map((d, i) => (
          <Decided key={i} d={d.decision!} at={agentOf(sessions, d.decision!)}>
            <p class="would">
              would be <b>{Verdict[d.wouldBe!.verdict]?.toLowerCase()}</b>
              {d.wouldBe!.rule ? <> by rule <b>{line(d.wouldBe!.rule)}</b>{d.wouldBe!.place && <> in <code>{line(d.wouldBe!.place, 600)}</code></>}</> : ", no rule matches"}{d.wouldBe!.reason && `: ${line(d.wouldBe!.reason, 1000)}`}
            </p>
          </Decided>
        ))}
      </ol>
    </div>
  );
}

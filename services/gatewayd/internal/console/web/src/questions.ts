// The questions that wait for a person, of all agents: one stream for the whole page.
import { useEffect, useReducer } from "preact/hooks";
import type { Approval, ApprovalAnswer } from "@acphost/proto/supervisor/v1/approval";
import { approvals, may, watch } from "./api";

export interface Asked {
  approval: Approval;
  /** When it appeared on this page, in ms of performance.now(). */
  since: number;
  /** How it ended, if it has: it stays for a moment, so that nothing moves under a finger. */
  answer?: ApprovalAnswer;
}

/** How long an answered question stays, in ms, and how long after one goes nothing is taken. */
const staysFor = 2_500;
export const settle = 500;

class Questions {
  all = new Map<string, Asked>();
  known = false;
  /** Until when no answer is taken, because the questions have moved. */
  locked = 0;
  private listeners = new Set<() => void>();
  private running: AbortController | undefined;

  listen(l: () => void): () => void {
    this.listeners.add(l);
    return () => this.listeners.delete(l);
  }

  waiting(): Asked[] {
    return [...this.all.values()].filter((q) => !q.answer);
  }

  run(role: string): void {
    this.stop();
    const gone = (this.running = new AbortController());
    let fresh = new Set<string>();
    void watch(
      gone.signal,
      (signal) => {
        fresh = new Set();
        return approvals.watchApprovals({ onlyLook: !may(role, "approver") }, { signal });
      },
      (m) => {
        switch (m.change.case) {
          case "asked": {
            const a = m.change.value;
            fresh.add(a.id);
            const had = this.all.get(a.id);
            this.all.set(a.id, { approval: a, since: had?.since ?? performance.now() });
            break;
          }
          case "answered":
            this.ended(m.change.value.id, m.change.value);
            break;
          case "caughtUp":
            this.known = true;
            // What was answered while nothing was heard.
            for (const [id, q] of this.all) if (!fresh.has(id) && !q.answer) this.remove(id);
            break;
        }
        this.tell();
      },
    );
  }

  stop(): void {
    this.running?.abort();
    this.all.clear();
    this.known = false;
  }

  /** Notes the end of a question. Who may not answer knows it by its handle alone. */
  ended(id: string, answer: ApprovalAnswer): void {
    for (const [key, q] of this.all)
      if ((key === id || key.split(".")[0] === id.split(".")[0]) && !q.answer) {
        this.all.set(key, { ...q, answer });
        setTimeout(() => {
          this.remove(key);
          this.tell();
        }, staysFor);
      }
    this.tell();
  }

  private remove(id: string): void {
    if (this.all.delete(id)) this.locked = performance.now() + settle;
  }

  private tell(): void {
    for (const l of this.listeners) l();
  }
}

export const questions = new Questions();

/** Draws again when the questions change. */
export function useQuestions(): Questions {
  const [, again] = useReducer((n: number) => n + 1, 0);
  useEffect(() => questions.listen(() => again(0)), []);
  return questions;
}

// Signing in: the page shows a code, which a person types on the gateway's machine; or the person gives a token.
import { useEffect, useState } from "preact/hooks";
import { ask, leave, problem, secret, type Who } from "./api";

export function SignIn({ failed, entered }: { failed: string; entered: (who: Who) => void }) {
  const [code, setCode] = useState("");
  const [provider, setProvider] = useState("");
  const [error, setError] = useState("");
  const [elsewhere, setElsewhere] = useState(failed); // what went wrong at the provider
  useEffect(() => {
    let gone = false;
    let timer = 0;
    let mine = ""; // the page's half of the secrets of this sign-in
    const later = () => {
      if (!gone) timer = window.setTimeout(() => void step(), 1500);
    };
    const step = async () => {
      try {
        if (!mine) {
          secret.clear();
          const begun = await ask("begin");
          mine = begun.secret ?? "";
          setCode(begun.code ?? "");
          setProvider(begun.provider ?? "");
        } else {
          const got = await ask("claim", { secret: mine });
          if (got.state === "in" && !gone) {
            secret.set(got.secret ?? "");
            entered(got);
            return;
          }
          if (got.state === "stale") mine = "";
        }
        setError("");
      } catch (err) {
        setError(problem(err));
      }
      later();
    };
    void step();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, []);

  const byToken = async (e: Event) => {
    e.preventDefault();
    const field = (e.currentTarget as HTMLFormElement).elements.namedItem("token") as HTMLInputElement;
    try {
      const got = await ask("token", { token: field.value });
      field.value = "";
      secret.set(got.secret ?? "");
      entered(got);
    } catch (err) {
      setError(problem(err));
    }
  };

  return (
    <main class="signin">
      <h1>acphost console</h1>
      <section aria-labelledby="bycode">
        <h2 id="bycode">Sign in</h2>
        <p>On the gateway's machine, in a terminal of your own, type:</p>
        <p class="code" role="status">
          <code>acphost console {code || "…"}</code>
        </p>
        <p class="dim">Add --role approver to answer questions, --role operator to give prompts too. The code changes every 5 minutes.</p>
      </section>
      <form aria-labelledby="bytoken" onSubmit={(e) => void byToken(e)}>
        <h2 id="bytoken">Or with a token</h2>
        <label for="token">Token</label>
        <input id="token" name="token" type="password" autocomplete="off" required />
        <button type="submit">Sign in</button>
      </form>
      {provider && (
        <section aria-labelledby="byprovider">
          <h2 id="byprovider">Or with your account</h2>
          <button type="button" onClick={() => void leave().catch((err: unknown) => setElsewhere(problem(err)))}>Sign in with {provider}</button>
        </section>
      )}
      {(error || elsewhere) && (
        <p class="error" role="alert">
          {error || elsewhere}
        </p>
      )}
    </main>
  );
}

package intent

// codex is Codex: rawInput.command is an argv array, mostly ["bash", "-lc", LINE], with cwd beside it, and patches come
// as diffs. The common reading fits; the shell wrapper is taken apart later, as for every argv.
func codex() dialect { return dialect{agents: []string{"codex"}} }

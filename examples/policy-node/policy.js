// The policy: what leads to a secret is denied; files inside the session's roots may be read; the command lines that the
// settings name may be run, as they stand there; about everything else a person is asked.

const secret = /(^|\/)(\.env|\.ssh|\.aws|\.gnupg|id_[a-z0-9]+|[^/]*\.(pem|key))($|\/)/i;
const reads = ['fs.read', 'fs.list', 'tool.read', 'tool.search'];

export class Policy {
  #commands = new Set();

  // Settings: {commands: ["npm test", "git status"]}, words separated by single spaces.
  configure({ commands = [], ...unknown }, validateOnly) {
    for (const name of Object.keys(unknown)) throw new Error(`settings: ${name}: no such setting`);
    if (!Array.isArray(commands) || commands.some((line) => typeof line !== 'string')) {
      throw new Error('settings: commands: a list of command lines is expected');
    }
    if (!validateOnly) this.#commands = new Set(commands);
  }

  // An action comes normalised: no shell to parse, no path to resolve. The field action.title identifies nothing.
  decide(action) {
    const { kind = '', paths = [], command, unparsed = '' } = action ?? {};
    const redirected = command?.subCommands.flatMap((sub) => sub.redirections) ?? [];
    if ([...paths, ...redirected].some((file) => secret.test(file.path) || secret.test(file.resolvedPath))) {
      return { verdict: 'VERDICT_DENY', rule: 'secrets', reason: 'keys and credentials are not for agents' };
    }
    if (unparsed || command?.unparsed) return { verdict: 'VERDICT_ASK', rule: 'unclear', reason: unparsed || command.unparsed };
    if (!command && reads.includes(kind) && paths.length && paths.every((file) => file.insideRoots)) {
      return { verdict: 'VERDICT_ALLOW', rule: 'read-inside-roots' };
    }
    if (command?.subCommands.length && !command.env.length && command.subCommands.every((sub) => this.#known(sub))) {
      return { verdict: 'VERDICT_ALLOW', rule: 'known-commands' };
    }
    return { verdict: 'VERDICT_ASK', rule: 'else', reason: 'no rule is for this', grantable: true };
  }

  // A name means the system's program, and git works on the repository of a root, which names no programs.
  #itself({ argv, program, repository }) {
    const found = program && !program.insideRoots && !program.doubt && (program.builtin || program.path !== '');
    if (!argv[0]?.includes('/') && !found) return false;
    if (!/(^|\/)git$/i.test(argv[0] ?? '')) return true;
    return Boolean(repository) && !repository.doubt && !repository.suspects.length && (!repository.gitDir || repository.atRoot);
  }

  // A command is known if it is written in full in the settings, and nothing around it changes what it does.
  #known(sub) {
    const plain = !sub.dynamic && !sub.cwd && !sub.cwdUnknown &&
      !sub.redirections.length && !sub.assignments.length && !sub.wrappers.length && this.#itself(sub);
    return plain && sub.argv.every((word) => !/\s/.test(word)) && this.#commands.has(sub.argv.join(' '));
  }
}

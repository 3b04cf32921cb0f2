// Gives an agent one prompt, and asks on the terminal what it wants to be allowed: acp-adapter PROMPT COMMAND [ARGUMENT...]
import { createInterface } from 'node:readline/promises';

import { AcpAdapter } from '@acphost/client';

const [prompt, ...agent] = process.argv.slice(2);
if (prompt === undefined || agent.length === 0) {
  console.error('usage: acp-adapter PROMPT COMMAND [ARGUMENT...]');
  process.exit(2);
}
const terminal = createInterface({ input: process.stdin, output: process.stderr });
const adapter = new AcpAdapter({
  agent,
  cwd: process.cwd(),
  supervisor: { args: ['--policy', 'workspace'] },
  async permission({ title, options }) {
    const names = options.map((option, i) => `${i + 1} ${option.name}`).join(', ');
    const answer = await terminal.question(`\n${title}? ${names}: `);
    return options[Number(answer) - 1]?.optionId;
  },
});
adapter.on('text', (text) => process.stdout.write(text));
adapter.on('disconnected', (reason) => console.error(`\n${reason.message}`));
try {
  await adapter.connect();
  await adapter.initialize();
  const end = await adapter.prompt(prompt);
  console.error(`\n[${end.stopReason || end.error?.message}]`);
} finally {
  terminal.close();
  await adapter.disconnect();
}

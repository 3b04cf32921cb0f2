// Prompts an agent, and prints its message as it comes: streamed-prompt PROMPT COMMAND [ARGUMENT...]
//
// The agent's questions are not answered here, so that it may do what acphost's policy allows, and nothing else.
import { cancel, Supervisor } from '@acphost/client';

const [prompt, ...command] = process.argv.slice(2);
if (prompt === undefined || command.length === 0) {
  console.error('usage: streamed-prompt PROMPT COMMAND [ARGUMENT...]');
  process.exit(2);
}
const supervisor = await Supervisor.start({ args: ['--policy', 'workspace'] });
const client = await supervisor.client();
try {
  const { agent } = await client.agents.startAgent({ command, cwd: process.cwd() });
  const { session } = await client.sessions.newSession({ agentId: agent!.id, cwd: process.cwd() });
  const turn = client.prompt({ sessionId: session!.sessionId, prompt, cancelOnDisconnect: true });
  for await (const { event } of turn) {
    switch (event.case) {
      case 'agentMessage':
        if (event.value.content?.content.case === 'text') process.stdout.write(event.value.content.content.value.text);
        break;
      case 'toolCall':
        console.error(`\n[${event.value.title}]`);
        break;
      case 'questionAsked':
        console.error(`\n[not answered: ${event.value.permission?.title ?? event.value.elicitation?.message}]`);
        await client.approvals.answerApproval({ id: event.value.id, answer: cancel });
        break;
      case 'turnEnded':
        console.error(`\n[${event.value.stopReason || event.value.error?.message}]`);
    }
  }
} finally {
  client.close();
  await supervisor.stop();
}

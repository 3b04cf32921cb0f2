import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';

const text = (file) => fs.readFileSync(new URL(file, import.meta.url), 'utf8');

for (const file of ['main.js', 'policy.js']) {
  test(`documentation shows ${file}`, () => {
    assert.ok(text('../../docs/plugins.md').includes(`\n\`\`\`js\n${text(file)}\`\`\`\n`));
  });
}

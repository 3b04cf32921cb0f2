#!/usr/bin/env node
// A permission policy for acphost. policy.js decides; handler.js is the transport, the same for every handler.
import { serve } from './handler.js';
import { Policy } from './policy.js';

const policy = new Policy();

await serve({
  name: 'policy-node',
  version: '1.0.0',
  configure: (settings, validateOnly) => policy.configure(settings, validateOnly),
  services: {
    'acphost.permission.v1.PermissionService': {
      decide: ({ action }) => policy.decide(action),
    },
  },
});

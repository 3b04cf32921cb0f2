#!/usr/bin/env python3
"""A permission policy for acphost: what leads to a secret is denied, files inside the session's roots may be read, commands that
only look at such files may be run, and about everything else a person is asked."""

import re

import handler

SECRET = re.compile(r'(^|/)(\.env|\.ssh|\.aws|\.gnupg|id_[a-z0-9]+|[^/]*\.(pem|key))($|/)', re.IGNORECASE)
READS = {'fs.read', 'fs.list', 'tool.read', 'tool.search'}

Response = handler.message('acphost.permission.v1.DecideResponse')
ALLOW, ASK, DENY = (Response.DESCRIPTOR.fields_by_name['verdict'].enum_type.values_by_name['VERDICT_' + v].number for v in ('ALLOW', 'ASK', 'DENY'))
READ = handler.message('acphost.permission.v1.PathAccess').DESCRIPTOR.fields_by_name['access'].enum_type.values_by_name['ACCESS_READ'].number
LEAVE_OUT = ['**/.env', '**/.ssh/**', '**/.aws/**', '**/.gnupg/**', '**/id_*', '**/*.pem', '**/*.key']


def decide(request):
    """Judges an action, which comes normalised: no shell to parse, no path to resolve. action.title identifies nothing."""
    action = request.action
    command = action.command if action.HasField('command') else None
    files = list(action.paths)
    for sub in command.sub_commands if command else ():
        files += list(sub.redirections) + list(sub.facts.files)
    if any(SECRET.search(file.path) or SECRET.search(file.resolved_path) for file in files):
        return Response(verdict=DENY, rule='secrets', reason='keys and credentials are not for agents')
    unclear = action.unparsed or (command.unparsed if command else '')
    if unclear:
        return Response(verdict=ASK, rule='unclear', reason=unclear)
    if command is None and action.kind in READS and action.paths and all(file.inside_roots for file in action.paths):
        return Response(verdict=ALLOW, rule='read-inside-roots')
    if command and command.sub_commands and not command.env and all(looks(sub) for sub in command.sub_commands):
        return Response(verdict=ALLOW, rule='looks-inside-roots', leave_out=LEAVE_OUT)
    return Response(verdict=ASK, rule='else', reason='no rule is for this', grantable=True)


def looks(sub):
    """Whether a command only looks at files inside the roots, by its facts rather than by its words."""
    plain = not (sub.dynamic or sub.cwd or sub.cwd_unknown or sub.redirections or sub.assignments or sub.wrappers)
    facts = sub.facts
    harmless = facts.known and not (facts.runs_code or facts.network or facts.changes)
    return plain and harmless and itself(sub) and all(file.access == READ and file.inside_roots for file in facts.files)


def itself(sub):
    """Whether the name means the system's program, and git works on the repository of a root, which names no programs."""
    program = sub.program
    if not sub.HasField('program') or program.inside_roots or program.doubt or not (program.builtin or program.path):
        return False
    if not re.search(r'(^|/)git$', sub.argv[0], re.IGNORECASE):
        return True
    repository = sub.repository
    return (sub.HasField('repository') and not repository.doubt and not repository.suspects
            and (not repository.git_dir or repository.at_root))


if __name__ == '__main__':
    handler.serve('policy-python', '1.0.0', {'acphost.permission.v1.PermissionService': {'Decide': decide}})

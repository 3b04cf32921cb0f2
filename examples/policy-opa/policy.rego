# What an agent may do, for acphost's policy-opa. input is the action, with the names of acphost.permission.v1.Action.
package acphost

import rego.v1

# Of several verdicts the strictest counts.
decision := {"verdict": "deny", "rule": "secrets", "reason": "keys and credentials are not for agents"} if {
	secret
} else := {"verdict": "ask", "rule": "unclear", "reason": "it is not clear what would be done"} if {
	unclear
} else := {"verdict": "allow", "rule": "read-inside-roots"} if {
	input.kind in {"fs.read", "fs.list", "tool.read", "tool.search"}
	not input.command
	count(input.paths) > 0
	every file in input.paths { file.inside_roots }
} else := {"verdict": "allow", "rule": "known-commands"} if {
	count(input.command.sub_commands) > 0
	count(input.command.env) == 0
	every sub in input.command.sub_commands { known(sub) }
} else := {"verdict": "ask", "rule": "else", "reason": "no rule is for this", "grantable": true}

secret if {
	some file in files
	some path in {file.path, file.resolved_path}
	regex.match(`(?i)(^|/)(\.env|\.ssh|\.aws|\.gnupg|[^/]*\.(pem|key))($|/)`, path)
}

files contains file if some file in input.paths

files contains file if some file in input.command.sub_commands[_].redirections

unclear if input.unparsed != ""

unclear if input.command.unparsed != ""

# A command is known if it is listed here in full, and the rest of the line does not change its effect.
known(sub) if {
	sub.argv in {["go", "test", "./..."], ["git", "status"]}
	not sub.dynamic
	sub.cwd == ""
	not sub.cwd_unknown
	(count(sub.redirections) + count(sub.assignments)) + count(sub.wrappers) == 0
}

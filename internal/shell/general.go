package shell

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// readers are programs that, unless Risky says otherwise of their options, read files or nothing and write to their
// standard output alone.
var readers = wordset.Of(`
	ls dir cat tac head tail wc grep egrep fgrep rg ag ack fd fdfind find gfind stat file du df tree sort uniq cut tr rev
	diff cmp comm join paste column nl od hexdump xxd strings basename dirname realpath readlink pwd echo true false seq
	date cal whoami id groups uname hostname uptime ps pgrep free nproc arch jq which whereis type test [ expr cksum sum
	md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum shasum md5 base64 base32 fold fmt expand unexpand sed
	numfmt tsort look zcat zgrep bzcat xzcat lsblk lscpu`)

// Generalisable says how far a remembered answer about argv may reach at the widest: to commands that begin with
// prefix, "git status" for "git status -s". Not ok: it may stand for nothing but exactly argv.
//
// It is ok only for programs that are known to read and print. It is never ok for interpreters, for programs that run
// others, for package managers and network clients, for what removes or publishes, for anything that Risky warns of,
// nor for programs that are not known here.
//
// A prefix alone is no permission: it covers a command only if that command is Generalisable too, with the same prefix.
// So "find ." covers no "find . -delete".
func Generalisable(argv []string) (prefix []string, ok bool) {
	if len(argv) == 0 || !InSystem(argv[0]) || Risky(argv) != "" {
		return nil, false
	}
	name := baseName(argv[0])
	if name == "git" {
		if len(argv) < 2 || strings.HasPrefix(argv[1], "-") {
			return nil, false
		}
		return slices.Clone(argv[:2]), true
	}
	if !readers[name] {
		return nil, false
	}
	return []string{argv[0]}, true
}

// InSystem reports whether a program is named without a folder, or in one where only the system's own programs are.
func InSystem(program string) bool {
	switch program[:len(program)-len(baseName(program))] {
	case "", "/bin/", "/usr/bin/":
		return true
	}
	return false
}

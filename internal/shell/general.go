package shell

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// readers are programs that read files or nothing and write only to their standard output, unless Risky returns a
// danger of their options.
var readers = wordset.Of(`
	ls dir cat tac head tail wc grep egrep fgrep rg ag ack fd fdfind find gfind stat file du df tree sort uniq cut tr rev
	diff cmp comm join paste column nl od hexdump xxd strings basename dirname realpath readlink pwd echo true false seq
	date cal whoami id groups uname hostname uptime ps pgrep free nproc arch jq which whereis type test [ expr cksum sum
	md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum shasum md5 base64 base32 fold fmt expand unexpand sed
	numfmt tsort look zcat zgrep bzcat xzcat lsblk lscpu`)

// Generalisable returns the widest prefix that a remembered answer for argv may cover: commands that begin with prefix,
// "git status" for "git status -s". If ok is false, the answer may only cover exactly argv.
//
// ok is true only for programs that are known to only read and print. It is always false for interpreters, programs
// that run others, package managers, network clients, programs that remove or publish, commands with a danger from
// Risky, and unknown programs.
//
// The prefix is not sufficient as a permission: it covers another command only if that command is Generalisable with
// the same prefix. So "find ." does not cover "find . -delete".
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

// InSystem reports whether a program is named without a folder, or in a folder that only the system's own programs are
// in.
func InSystem(program string) bool {
	switch program[:len(program)-len(baseName(program))] {
	case "", "/bin/", "/usr/bin/":
		return true
	}
	return false
}

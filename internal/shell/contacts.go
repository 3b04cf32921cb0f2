package shell

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// Contacts reports whether a command normally contacts another machine with its options and operands: "curl URL", "git
// fetch", "npm install". A false result is not a guarantee: an unknown program may contact machines, too.
func Contacts(argv []string) bool {
	if len(argv) < 2 || !slices.ContainsFunc(argv[1:], func(arg string) bool { return !onlyInforms(arg) }) {
		return len(argv) == 1 && alwaysInstalls[unversioned(argv[0])] // "yarn" alone installs
	}
	args := argv[1:]
	name := unversioned(argv[0])
	switch {
	case alwaysContacts[name]:
		return true
	case name == "git":
		return gitContacts(args)
	case name == "scp" || name == "rsync":
		return slices.ContainsFunc(operands(args), func(arg string) bool { return strings.Contains(arg, ":") })
	}
	if slices.ContainsFunc(args, func(arg string) bool { return arg == "--offline" || arg == "--no-index" || arg == "--frozen-offline" }) {
		return false
	}
	words := operands(args)
	return slices.ContainsFunc(contacting[name], func(verb []string) bool {
		return len(words) >= len(verb) && slices.Equal(words[:len(verb)], verb)
	})
}

// onlyInforms reports whether a word only requests a program's help or version.
func onlyInforms(arg string) bool {
	return slices.Contains([]string{"--version", "--help", "-V", "help", "version"}, arg)
}

// alwaysContacts are programs that contact other machines with any arguments.
var alwaysContacts = wordset.Of(`
	curl wget wget2 aria2c http https xh httpie lynx links w3m ssh sftp slogin mosh autossh sshpass rclone ftp lftp tftp
	ncftp telnet nc ncat netcat socat nmap gsutil mail sendmail mutt dig nslookup host ping whois s3cmd skopeo
	cpan cpanm aws gcloud az doctl heroku fly flyctl`)

// alwaysInstalls are programs that install packages if they have no arguments.
var alwaysInstalls = wordset.Of("yarn yarnpkg")

// contacting are the commands of other programs that contact machines, by program. It is read-only.
var contacting = func() map[string][][]string {
	table := map[string][][]string{}
	for name, verbs := range byName(map[string]string{
		"npm": `install i in ins add ci clean-install install-test it cit update up upgrade udpate publish view info show search audit outdated login
			adduser ping access owner dist-tag deprecate unpublish token team org star stars whoami create init`,
		"pnpm":         "install i add update up upgrade dlx create publish audit outdated fetch view info search",
		"yarn yarnpkg": "install add upgrade up dlx create publish audit outdated info global/add npm/publish npm/audit npm/info",
		"bun":          "install i add update x create publish audit outdated info",
		"pip":          "install download search wheel index", "pipx": "install upgrade upgrade-all run inject",
		"uv":     "sync add lock publish pip/install pip/sync pip/compile tool/install tool/run tool/upgrade python/install self/update",
		"poetry": "install add update lock publish search self/update", "pdm": "install add update lock sync publish", "hatch": "publish",
		"conda mamba micromamba": "install create update upgrade search env/create env/update",
		"gem":                    "install update push fetch outdated", "bundle bundler": "install update add outdated",
		"cargo": "install add update fetch search publish login yank owner info", "rustup": "update install self/update toolchain/install target/add component/add",
		"go":                   "get mod/download mod/tidy",
		"brew":                 "install update upgrade search fetch tap reinstall",
		"apt apt-get aptitude": "install update upgrade dist-upgrade full-upgrade download source build-dep",
		"yum dnf zypper":       "install update upgrade download search makecache refresh", "apk": "add update upgrade fetch",
		"composer": "install update require create-project search outdated audit", "luarocks": "install download search upload", "opam": "install update upgrade",
		"nuget": "install restore push search", "dotnet": "restore add/package nuget/push tool/install",
		"snap flatpak": "install refresh update find search", "helm": "install upgrade pull push repo/add repo/update",
		"docker podman nerdctl": "pull push login search compose/pull image/pull image/push", "crictl": "pull",
		"kubectl oc":     "apply get describe create delete logs exec cp edit patch scale rollout port-forward attach run expose top",
		"gh glab":        "api pr issue repo release run workflow gist search secret variable ssh-key gpg-key mr ci",
		"terraform tofu": "init plan apply destroy refresh import login get",
		"openssl":        "s_client s_time ocsp", "pre-commit": "autoupdate install-hooks", "twine": "upload check", "nvm fnm volta": "install",
	}) {
		for verb := range strings.FieldsSeq(verbs) {
			table[name] = append(table[name], strings.Split(verb, "/"))
		}
	}
	return table
}()

// gitContacts reports whether git, with these arguments, contacts the machine of a remote. A remote that is a path on
// this machine does not count.
func gitContacts(args []string) bool {
	argv := append([]string{"git"}, args...)
	command := GitCommand(argv)
	at := slices.Index(args, command)
	if command == "" || at < 0 {
		return false
	}
	words := operands(args[at+1:])
	verb := ""
	if len(words) > 0 {
		verb = words[0]
	}
	switch command {
	case "fetch", "pull", "push", "clone", "ls-remote", "fetch-pack", "send-pack":
		return len(words) == 0 || !localRemote(verb)
	case "remote":
		return slices.Contains([]string{"update", "prune", "show"}, verb)
	case "submodule":
		return slices.Contains([]string{"update", "add"}, verb)
	case "lfs":
		return slices.Contains([]string{"fetch", "pull", "push", "clone"}, verb)
	case "svn":
		return slices.Contains([]string{"fetch", "rebase", "clone", "dcommit"}, verb)
	case "archive":
		return slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--remote") })
	}
	return command == "send-email" || command == "imap-send" || command == "request-pull"
}

func localRemote(name string) bool {
	return strings.HasPrefix(name, "/") || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") || name == "." || name == ".." ||
		strings.HasPrefix(name, "file://")
}

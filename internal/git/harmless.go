package git

import (
	"slices"
	"strings"
)

// harmless are settings by which git runs nothing and looks at no other place, whatever their value: whole sections without
// a name of their own between ("color.*"), or keys of one. Lower-case; "*" is any key.
var harmless = map[string]string{
	"core": `repositoryformatversion filemode logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol safecrlf
		quotepath abbrev untrackedcache compression loosecompression bigfilethreshold packedgitwindowsize packedgitlimit
		deltabasecachelimit fscache longpaths sharedrepository whitespace commentchar commentstring preloadindex checkstat
		trustctime sparsecheckout sparsecheckoutcone multipackindex commitgraph hidedotfiles warnambiguousrefs fsync
		fsyncmethod splitindex ignorestat checkroundtripencoding maxtreedepth lockfilepackedreftimeout createobject
		filesreflocktimeout packedrefstimeout notesref usereplacerefs`,
	"advice": "*", "color": "*", "column": "*", "i18n": "*", "pack": "*", "index": "*", "feature": "*", "user": "*",
	"author": "*", "committer": "*", "init": "defaultbranch", "push": "*", "pull": "rebase ff autostash", "pretty": "*",
	"commit": "gpgsign verbose status cleanup", "tag": "gpgsign sort forcesignannotated", "rerere": "*",
	"checkout": "*", "stash": "*", "versionsort": "*", "help": "autocorrect", "receive": "*", "branch": "*", "apply": "*",
	"notes": "*", "worktree": "*", "maintenance": "auto autodetach strategy", "http": http,
	"extensions": "objectformat compatobjectformat worktreeconfig relativeworktrees preciousobjects noop noop-v1",
	"blame":      "blankboundary coloring date showemail showroot markunblamablelines markignoredlines",
	"fetch":      "recursesubmodules fsckobjects unpacklimit prune prunetags all output negotiationalgorithm showforcedupdates parallel writecommitgraph",
	"transfer":   "credentialsinurl fsckobjects hiderefs unpacklimit advertisesid advertiseobjectinfo",
	// A format of instructions may hold a line of its own for what a rebase does: "exec".
	"rebase": `usebuiltin backend stat autosquash autostash updaterefs missingcommitscheck abbreviatecommands
		reschedulefailedexec forkpoint rebasemerges maxlabellength`,
	"lfs":   "repositoryformatversion concurrenttransfers fetchinclude fetchexclude fetchrecentrefsdays setlockablereadonly",
	"clone": "defaultremotename rejectshallow", "add": "ignoreerrors ignore-errors",
	"am": "threeway keepcr", "interactive": "singlekey", "protocol": "version", "ssh": "variant", "gpg": "format",
	"credential": "username usehttppath", "promisor": "quiet", "safe": "directory", "sparse": "expectfilesoutsideofpatterns",
	"uploadpack": "allowfilter allowanysha1inwant allowtipsha1inwant allowreachablesha1inwant hiderefs keepalive",
	"format":     "pretty signoff numbered subjectprefix thread attach notes mboxrd noprefix useautobase",
	"status":     "showuntrackedfiles relativepaths short branch aheadbehind displaycommentprefix renames renamelimit showstash submodulesummary",
	"log":        "date decorate abbrevcommit follow mailmap showroot excludedecoration graphcolors diffmerges initialdecorationset",
	"diff": `renames renamelimit algorithm noprefix mnemonicprefix context interhunkcontext indentheuristic colormoved
		colormovedws wordregex statgraphwidth statnamewidth dirstat autorefreshindex suppressblankempty relative
		wserrorhighlight ignoresubmodules`,
	"gc":        "auto autodetach autopacklimit pruneexpire reflogexpire reflogexpireunreachable worktreepruneexpire writecommitgraph bigpackthreshold packrefs cruftpacks aggressivedepth aggressivewindow",
	"merge":     "conflictstyle ff renames renamelimit directoryrenames log stat autostash verbosity branchdesc renormalize",
	"grep":      "linenumber column patterntype extendedregexp threads fullname fallbacktonoindex",
	"submodule": "active fetchjobs recurse propagatebranches alternatelocation alternateerrorstrategy",
	// git reads none of these: prompts, windows and helpers of other programs do, which keep them here.
	"gui": "*", "gitk": "*", "bash": "*", "oh-my-zsh": "*", "gitflow": "*", "git-town": "*", "git-town-branch": "*",
}

// http are the keys of "http", with a URL between or none. Files of certificates that are trusted are read, and neither
// sent nor written. All else that names a file, or has git prove who the user is, is left out.
const http = `extraheader proxy sslverify sslcapath sslcainfo proxysslcainfo sslbackend sslversion sslcipherlist ssltry
	schannelcheckrevoke schannelusesslcainfo postbuffer version useragent followredirects maxrequests minsessions lowspeedlimit
	lowspeedtime keepaliveidle keepaliveinterval keepalivecount noepsv maxretries retryafter maxretrytime`

// harmlessNamed are the same for sections with a name between: "remote.origin.fetch".
var harmlessNamed = map[string]string{
	"branch":    "merge rebase description base",
	"remote":    "fetch tagopt prune prunetags mirror skipdefaultupdate skipfetchall push followremotehead",
	"submodule": "active branch fetchrecursesubmodules ignore path",
	"diff":      "xfuncname funcname binary wordregex algorithm",
	"http":      http,
	"lfs":       "access locksverify",
	"color":     "*", "gitflow": "*", "git-town": "*", "git-town-branch": "*",
	"credential": "username usehttppath",
}

// readBy are sections, and keys of some, that only the command named here reads.
var readBy = map[string]string{
	"difftool": "difftool", "mergetool": "mergetool", "diff.tool": "difftool", "diff.guitool": "difftool",
	"merge.tool": "mergetool", "merge.guitool": "mergetool", "guitool": "gui", "sendemail": "send-email",
	"instaweb": "instaweb", "svn": "svn", "svn-remote": "svn", "git-p4": "p4", "imap": "imap-send",
}

// everyday are commands of git's own, which no alias can replace, and which are none of readBy.
const everyday = `add am blame branch checkout cherry-pick clean commit describe diff fetch grep init log ls-files ls-tree merge
	merge-base mv pull push rebase remote reset restore rev-list rev-parse revert rm shortlog show show-ref stash status switch
	tag worktree diff-tree`

// unread reports whether a command of git surely does not look at a setting.
func (s setting) unread(command string) bool {
	_, known := readBy[s.section]
	if !known && s.sub == "" {
		_, known = readBy[s.section+"."+s.key]
	}
	return known && among(everyday, command)
}

// isLFS reports whether a setting is as "git lfs install --local" writes it: its program is found in PATH.
func (s setting) isLFS() bool {
	switch s.name() + "=" + s.value {
	case "filter.lfs.clean=git-lfs clean -- %f", "filter.lfs.smudge=git-lfs smudge -- %f", "filter.lfs.smudge=git-lfs smudge --skip -- %f",
		"filter.lfs.process=git-lfs filter-process", "filter.lfs.process=git-lfs filter-process --skip",
		"filter.lfs.required=true":
		return true
	}
	return false
}

// isFalse reports whether git takes a value for "no".
func (s setting) isFalse() bool {
	return slices.Contains([]string{"false", "no", "off", "0", ""}, strings.ToLower(s.value))
}

// isPartial reports whether a setting makes a repository one of which git fetches what is missing, with any command.
func (s setting) isPartial() bool {
	switch s.section + "." + s.key {
	case "remote.promisor":
		return s.sub != "" && !s.isFalse()
	case "remote.partialclonefilter":
		return s.sub != ""
	case "extensions.partialclone":
		return true
	}
	return false
}

// isHarmless reports whether a setting surely has git run nothing.
func (s setting) isHarmless() bool {
	if s.sub != "" {
		switch s.section + "." + s.key {
		case "submodule.update":
			return among("checkout rebase merge none", s.value) // else a command
		case "remote.url", "remote.pushurl", "submodule.url", "branch.remote", "branch.pushremote": // a remote may be a URL
			return plainURL(s.value)
		case "url.insteadof", "url.pushinsteadof":
			return plainURL(s.sub)
		case "remote.promisor":
			return !s.isPartial()
		}
		// No name of git's own has a dash: these are of GitHub's, GitLens' and VS Code's ("gh-resolved", "vscode-merge-base").
		if (s.section == "branch" || s.section == "remote") && strings.Contains(s.key, "-") {
			return true
		}
		return among(harmlessNamed[s.section], s.key)
	}
	switch s.name() {
	case "core.bare":
		return s.isFalse()
	case "remote.pushdefault":
		return plainURL(s.value)
	case "extensions.refstorage": // else a URL, in some versions
		return s.value == "files" || s.value == "reftable"
	case "diff.submodule": // "diff" goes into whatever repository lies where history once had one
		return s.value == "short" || s.value == "log"
	}
	return among(harmless[s.section], s.key)
}

func among(keys, key string) bool {
	return keys == "*" || slices.Contains(strings.Fields(keys), key)
}

// plainURL reports whether a remote's URL names no helper program ("ext::…") and reads like no option.
func plainURL(url string) bool {
	return !strings.Contains(url, "::") && !strings.HasPrefix(url, "-")
}

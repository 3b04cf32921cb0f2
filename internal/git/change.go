package git

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// HarmlessConfig compares a new content of a configuration file with the present one, nil if there is none. It returns "" if each
// setting that differs is one that git's own commands write for everyday work, with a value of its form, so that git runs nothing and
// connects to no other place than before. Otherwise it returns a reason: the names of the other settings that differ,
// without their values, or that a file is not well-formed. The address of a remote may be added, and not changed or
// removed; see Addresses. before also counts as the content that the user has accepted: see HarmlessConfigSince.
//
// The order of settings with different names is not compared. Removing the file is an empty data. file is the path of the
// configuration, absolute, by which it judges the work tree of a submodule; "" accepts none. trees are for a repository
// of a program's own: folders that it may name as the work tree besides, as absolute paths. The file system is not
// read.
func HarmlessConfig(file string, data, before []byte, trees ...string) (why string) {
	return Addresses(nil).HarmlessConfigSince(file, data, before, before, trees...)
}

// Addresses are the user's addresses of the remotes and submodules of a repository, by the names of their settings in
// lower case, without those that the agent has added. nil: it is not known which addresses are the user's, so all
// present ones are.
type Addresses map[string][]string

// AddressesOf returns the addresses in a configuration file, none if it is not well-formed. The result is not nil.
func AddressesOf(data []byte) Addresses {
	addresses := Addresses{}
	all, _ := exactSettings(data)
	for _, s := range all {
		switch s.section + "." + s.key {
		case "remote.url", "remote.pushurl", "submodule.url":
			addresses[s.name()] = append(addresses[s.name()], s.value)
		}
	}
	return addresses
}

// HarmlessConfigSince is HarmlessConfig for a program that may have changed the file before. accepted is the content
// that the file had then, nil if there was none. A remote that the program has added may only be that of a branch that
// had none: git does not push or fetch other branches there by itself, and does not fetch missing objects from it.
//
// If a is not nil, the address of a remote or a submodule may be removed, and added again as it is in a. Addresses that
// are not in a may be changed.
func (a Addresses) HarmlessConfigSince(file string, data, before, accepted []byte, trees ...string) (why string) {
	was, err := exactSettings(before)
	if err != nil {
		return "the present configuration " + err.Error()
	}
	is, err := exactSettings(data)
	if err != nil {
		return "the new configuration " + err.Error()
	}
	first, err := exactSettings(accepted)
	if err != nil {
		return "the earlier configuration " + err.Error()
	}
	d := difference{
		file: file, trees: trees, users: a, was: byName(was), is: byName(is), sections: map[string]bool{},
		accepted: byName(first), isNew: accepted == nil,
	}
	for _, s := range is {
		d.sections[s.section+"."+s.sub] = true
	}
	same := map[string]bool{}
	for name, values := range d.is {
		same[name] = slices.Equal(values, d.was[name])
	}
	var names []string
	for _, s := range slices.Concat(is, was) {
		if name := s.name(); !same[name] && !slices.Contains(names, name) && !d.harmless(s) {
			names = append(names, name)
		}
	}
	for i, name := range names { // a long one must not hide the others
		names[i] = strings.ToValidUTF8(name[:min(len(name), maxShown)], "")
	}
	if more := len(names) - maxNames; more > 0 {
		names = append(names[:maxNames], strconv.Itoa(more)+" more settings")
	}
	return strings.Join(names, ", ")
}

// maxNames limits the settings that a reason names.
const maxNames = 8

// HarmlessIndex returns "" if git writes no file of a repository's own because of a new index, otherwise a reason: a name that git
// itself accepts in no tree, a part that refers to another file or to other positions, or that the index is not well-formed.
// Removing the index is an empty data.
func HarmlessIndex(data []byte) (why string) {
	malformed := "the new index " + errSyntax.Error()
	switch {
	case len(data) == 0:
		return ""
	case len(data) < 12:
		return malformed
	}
	version, count, ok := indexHead(data[:12], int64(len(data)))
	if !ok {
		return malformed
	}
	rest, read := data[12:], false
	for _, id := range []int{20, 32} { // the repository says which, and could say so later
		var modes []uint32
		names, end, ok := entries(rest, version, count, id, func(mode uint32) bool {
			modes = append(modes, mode)
			return true
		})
		if !ok {
			continue
		}
		read = true
		for i, name := range names {
			if !isTreeName(name, modes[i]) {
				return name
			}
		}
		if name := strangeExtension(rest[end:], id); name != "" {
			return "an extension " + name
		}
	}
	if !read {
		return malformed
	}
	return ""
}

// isTreeName reports whether a name may be in a tree: relative, clean, and not in a repository's own folder by any spelling.
func isTreeName(name string, mode uint32) bool {
	if mode == 0o040000 { // of a folder that is not checked out
		name = strings.TrimSuffix(name, "/")
	}
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." || isFolder(part) {
			return false
		}
	}
	return name != "" && !strings.HasPrefix(name, "/") && !strings.HasSuffix(name, "/") && !strings.Contains(name, "//")
}

// strangeExtension returns the first extension of an index that is not one of git's usual ones, quoted; id is the size of its checksum.
func strangeExtension(data []byte, id int) string {
	for len(data) > id {
		if len(data) < 8 {
			return "that is cut"
		}
		size := int64(binary.BigEndian.Uint32(data[4:]))
		switch name := string(data[:4]); {
		case !usualExtensions[name]:
			return strconv.Quote(name)
		case size > int64(len(data)-8):
			return "that is cut"
		}
		data = data[8+size:]
	}
	return ""
}

// usualExtensions say nothing about names. The others name another file (link), or where git finds entries (IEOT).
var usualExtensions = wordset.Of(`TREE REUC UNTR FSMN sdir`)

// exactSettings is settings for a file that git reads in the same way: it refuses what settings takes and git might not, or might
// take for something else.
func exactSettings(data []byte) ([]setting, error) {
	if len(data) > maxConfig || bytes.ContainsFunc(data, unusual) {
		return nil, errSyntax
	}
	all, err := settings(data)
	for _, s := range all {
		if strings.ContainsAny(s.value, "\t\b") { // a tab is read as a blank, in some versions
			return nil, errSyntax
		}
	}
	return all, err
}

// unusual reports whether no program writes a character into a configuration file: control characters.
func unusual(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' || r == 0x7f || r == '\ufeff' || r == '\ufffd'
}

// byName are the values of settings, in their order.
func byName(all []setting) map[string][]string {
	values := map[string][]string{}
	for _, s := range all {
		values[s.name()] = append(values[s.name()], s.value)
	}
	return values
}

// difference is that of two contents of a file.
type difference struct {
	file     string
	trees    []string
	users    Addresses
	was, is  map[string][]string
	sections map[string]bool // of the new file, by "SECTION.SUB"
	// accepted are the settings that the user has accepted. isNew: there were none.
	accepted map[string][]string
	isNew    bool
}

// harmless reports whether a setting that differs, and that one of the files has, may do so.
func (d difference) harmless(s setting) bool {
	name := s.section + "." + s.key
	if s.sub != "" {
		name = s.section + ".*." + s.key
	}
	switch name {
	case "remote.*.url", "remote.*.pushurl":
		return d.addsRemote(s.sub) && address(s.value) || d.restores(s.name())
	case "submodule.*.url":
		return d.usersAddress(s.name()) == nil && address(s.value) || d.restores(s.name())
	case "branch.*.remote", "branch.*.pushremote", "remote.pushdefault":
		if d.is[s.name()] == nil || s.value == "." {
			return true
		}
		hadNone := s.section == "branch" && d.accepted[s.name()] == nil
		return d.is["remote."+s.value+".url"] != nil && (hadNone || d.accepts(s.value))
	case "remote.*.promisor", "remote.*.partialclonefilter":
		return (d.is[s.name()] == nil || d.accepts(s.sub)) && forms[name](s.value)
	case "extensions.refstorage": // the refs of another kind of storage are not judged
		return d.isNew && forms[name](s.value)
	case "extensions.partialclone":
		return (d.is[s.name()] == nil || d.accepts(s.value)) && forms[name](s.value)
	case "remote.*.fetch":
		return d.addsRemote(s.sub) && refspec.MatchString(s.value) || tracking.MatchString(s.value)
	case "remote.*.push", "remote.*.mirror", "remote.*.prune", "remote.*.prunetags":
		return d.addsRemote(s.sub) && pushed.MatchString(s.value)
	case "core.worktree":
		return d.isOfSubmodule(s.value) || slices.Contains(d.trees, s.value)
	case "index.threads": // git then writes an index that HarmlessIndex rejects, if the index is large
		return len(d.trees) > 0 && isFlag(s.value)
	case "lfs.*.access":
		return address(s.sub) && among("basic none negotiate", s.value)
	}
	if s.sub != "" && sectionsOfNames[s.section] && !d.sections[s.section+"."+s.sub] {
		return true // the remote, submodule or branch is removed
	}
	if section := s.section; s.sub == "" && anyKey[section] || s.sub != "" && section == "color" {
		return isWord(s.value)
	}
	form, ok := forms[name]
	return ok && form(s.value)
}

// sectionsOfNames are sections that say nothing any more if the remote, submodule or branch in their name is removed.
var sectionsOfNames = wordset.Of(`remote submodule branch`)

// accepts reports whether git may use a remote by itself: its address is the user's, or the whole repository is new.
func (d difference) accepts(remote string) bool {
	if d.isNew {
		return true
	}
	address := d.is["remote."+remote+".url"]
	is := func(name string, values []string) bool {
		return strings.HasPrefix(name, "remote.") && slices.Equal(values, address)
	}
	for _, known := range []map[string][]string{d.accepted, d.users} {
		for name, values := range known {
			if address != nil && is(name, values) {
				return true
			}
		}
	}
	return false
}

// addsRemote reports whether a remote is not the user's. The user's next push may go to the address of one that is.
func (d difference) addsRemote(remote string) bool {
	return d.usersAddress("remote."+remote+".url") == nil && d.usersAddress("remote."+remote+".pushurl") == nil
}

// usersAddress returns the user's values of an address.
func (d difference) usersAddress(name string) []string {
	if d.users == nil {
		return slices.Concat(d.was[name], d.accepted[name])
	}
	return d.users[name]
}

// restores reports whether an address is removed, or becomes the user's again.
func (d difference) restores(name string) bool {
	return d.users != nil && (d.is[name] == nil || slices.Equal(d.is[name], d.users[name]))
}

// isOfSubmodule reports whether a work tree is as git writes it for a submodule: relative, below that of the repository in whose
// folder "modules" the configuration is, and not in a repository's own folder.
func (d difference) isOfSubmodule(tree string) bool {
	top, _, ok := strings.Cut(d.file, "/"+folder+"/modules/")
	if !ok || filepath.IsAbs(tree) || !isText(tree) {
		return false
	}
	inside, ok := strings.CutPrefix(filepath.Join(filepath.Dir(d.file), tree), top+"/")
	return ok && !Own(inside)
}

var (
	// refspec and tracking are what a fetch writes: any refs, and those that are not the user's own.
	refspec  = regexp.MustCompile(`^\+?[A-Za-z0-9][\w./*+@-]*(:refs/[\w./*+@-]*)?$`)
	tracking = regexp.MustCompile(`^\+?refs/[\w./*+@-]+:refs/(remotes|tags|notes)/[\w./*+@-]+$`)
	pushed   = regexp.MustCompile(`^(\+?[A-Za-z0-9][\w./*+@-]*)?(:[A-Za-z0-9][\w./*+@-]*)?$`)

	url      = regexp.MustCompile(`^(https|ssh|git\+ssh|ssh\+git)://([A-Za-z0-9_][\w.~+-]*(:[\w.~+-]*)?@)?[A-Za-z0-9\[][\w.:\]-]*(/[^\s"'\\]*)?$`)
	fileURL  = regexp.MustCompile(`^file:///[^\s"'\\]*$`)
	scp      = regexp.MustCompile(`^([A-Za-z0-9_][\w.+-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:[\w./~][^:]*$`)
	filePath = regexp.MustCompile(`^(/|\.\.?/|\.\.?$|[A-Za-z0-9_])[^:]*$`)
)

// address reports whether a remote's address names no helper program, and no option of one: https, ssh and file URLs, the form of scp,
// and paths.
func address(s string) bool {
	if !plainURL(s) || strings.ContainsFunc(s, unusual) {
		return false
	}
	if strings.Contains(s, "://") {
		return url.MatchString(s) || fileURL.MatchString(s)
	}
	return scp.MatchString(s) || filePath.MatchString(s)
}

// anyKey are sections whose keys are yes or no, colours and layouts.
var anyKey = wordset.Of(`advice color column`)

var (
	word   = regexp.MustCompile(`^[A-Za-z0-9#][A-Za-z0-9#.,_+=/ -]*$`)
	digits = regexp.MustCompile(`^-?[0-9]{1,18}[kmgKMG]?$`)
	refs   = regexp.MustCompile(`^\+?[A-Za-z0-9][\w./*+@#-]*$`)
)

func isWord(s string) bool   { return s == "" || word.MatchString(s) }
func isNumber(s string) bool { return digits.MatchString(s) }
func isRef(s string) bool    { return refs.MatchString(s) }
func isFlag(s string) bool {
	return among("true false yes no on off 1 0", strings.ToLower(s)) || s == ""
}
func isText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && unusual(r) })
}

// isKeyName is the form of the name of a key for signatures: an identity, a fingerprint, a public key or its file.
func isKeyName(s string) bool {
	return isText(s) && !strings.HasPrefix(s, "-") && !strings.Contains(s, "\n")
}

// isRelative is the form of a path that stays below the folder from which it is read.
func isRelative(s string) bool {
	return isText(s) && s != "" && s[0] != '/' && s[0] != '-' && !slices.Contains(strings.Split(s, "/"), "..")
}

func oneOf(words string) func(string) bool {
	return func(s string) bool { return among(words, strings.ToLower(s)) }
}

// forms are the settings that may differ, with the form of their values; "*" is any name between. Lower-case.
var forms = func() map[string]func(string) bool {
	all := map[string]func(string) bool{
		"gpg.format":              oneOf("openpgp x509 ssh"),
		"core.sharedrepository":   oneOf("umask false group true"), // and not for everybody
		"submodule.*.update":      oneOf("checkout merge rebase none"),
		"extensions.refstorage":   oneOf("files reftable"),
		"extensions.objectformat": oneOf("sha1 sha256"),
		"user.signingkey":         isKeyName,
		"submodule.*.path":        isRelative,
		"diff.submodule":          oneOf("short log"),
	}
	for keys, form := range map[string]func(string) bool{
		`core.bare core.filemode core.ignorecase core.precomposeunicode core.symlinks core.fsmonitor
		core.preloadindex core.sparsecheckout core.sparsecheckoutcone core.multipackindex
		core.commitgraph core.longpaths core.fscache core.quotepath core.trustctime
		user.useconfigonly commit.gpgsign commit.verbose commit.status tag.gpgsign tag.forcesignannotated
		pull.autostash push.autosetupremote push.followtags 
		remote.*.promisor remote.*.skipdefaultupdate remote.*.skipfetchall
		submodule.*.active submodule.*.fetchrecursesubmodules submodule.propagatebranches
		merge.stat merge.autostash merge.branchdesc merge.renormalize rebase.stat rebase.autosquash rebase.autostash
		rebase.updaterefs rebase.abbreviatecommands rebase.reschedulefailedexec rebase.forkpoint
		rerere.enabled rerere.autoupdate fetch.prune fetch.prunetags fetch.all fetch.showforcedupdates fetch.writecommitgraph
		fetch.fsckobjects transfer.fsckobjects
		diff.noprefix diff.mnemonicprefix diff.indentheuristic diff.autorefreshindex diff.suppressblankempty
		gc.autodetach gc.writecommitgraph gc.cruftpacks pack.usesparse pack.writereverseindex pack.allowpackreuse
		pack.writebitmaphashcache index.sparse index.skiphash feature.manyfiles feature.experimental
		extensions.worktreeconfig extensions.relativeworktrees extensions.preciousobjects maintenance.auto
		status.relativepaths status.short status.branch status.aheadbehind status.showstash
		log.abbrevcommit log.follow log.mailmap log.showroot
		lfs.*.locksverify lfs.locksverify lfs.setlockablereadonly`: isFlag,
		`core.repositoryformatversion core.compression core.loosecompression core.bigfilethreshold core.packedgitwindowsize
		core.packedgitlimit core.deltabasecachelimit
		submodule.fetchjobs merge.renamelimit merge.log merge.verbosity diff.renamelimit diff.context diff.interhunkcontext
		diff.statgraphwidth diff.statnamewidth fetch.parallel fetch.unpacklimit gc.auto gc.autopacklimit gc.bigpackthreshold
		gc.aggressivedepth gc.aggressivewindow pack.threads pack.windowmemory pack.window pack.depth pack.compression
		pack.packsizelimit pack.deltacachesize pack.deltacachelimit pack.indexversion index.version
		status.renamelimit lfs.repositoryformatversion lfs.concurrenttransfers`: isNumber,
		`core.logallrefupdates core.untrackedcache pull.rebase branch.*.rebase branch.autosetuprebase diff.renames
		submodule.recurse core.autocrlf core.eol core.safecrlf core.abbrev core.whitespace core.checkstat core.hidedotfiles
		commit.cleanup pull.ff push.default push.recursesubmodules branch.autosetupmerge branch.sort tag.sort remote.*.tagopt
		remote.*.partialclonefilter submodule.*.ignore merge.conflictstyle merge.ff merge.renames merge.directoryrenames
		rebase.missingcommitscheck rebase.rebasemerges fetch.recursesubmodules fetch.output fetch.negotiationalgorithm
		diff.algorithm diff.colormoved diff.colormovedws diff.dirstat diff.wserrorhighlight diff.ignoresubmodules
		gc.pruneexpire gc.reflogexpire gc.reflogexpireunreachable gc.worktreepruneexpire gc.rerereresolved gc.rerereunresolved
		gc.packrefs maintenance.strategy status.showuntrackedfiles status.renames status.submodulesummary
		log.date log.decorate log.diffmerges`: isWordOrOption,
		`init.defaultbranch branch.*.merge extensions.partialclone clone.defaultremotename submodule.*.branch`:               isRef,
		`user.name user.email author.name author.email committer.name committer.email branch.*.description submodule.active`: isText,
	} {
		for name := range wordset.Of(keys) {
			all[name] = form
		}
	}
	return all
}()

// isWordOrOption is isWord, or an option as remote.*.tagopt has: "--no-tags".
func isWordOrOption(s string) bool { return isWord(strings.TrimPrefix(s, "--")) || isPartialFilter(s) }

var partialFilter = regexp.MustCompile(`^(blob:none|blob:limit=[0-9]+[kmg]?|tree:[0-9]+|object:type=[a-z]+)$`)

func isPartialFilter(s string) bool { return partialFilter.MatchString(s) }

package gate

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/regular"
	"github.com/acphost/acphost/internal/wordset"
)

var (
	// walkers walk through whole folders, by default the current one.
	walkers = wordset.Of("rg ag ack ugrep ug fd fdfind http-server serve repomix gitingest code2prompt files-to-prompt")
	// argWalkers walk through the whole folders that are their arguments.
	argWalkers = wordset.Of(`tar gtar bsdtar star pax zip 7z 7za 7zz 7zr rar jar rsync borg restic rclone scp sftp cpio dar duplicity
		mksquashfs genisoimage mkisofs xorriso diff bindfs meld aws gsutil gcloud az oxipng tree`)
	// optionWalkers walk through folders with one of these short options.
	optionWalkers = map[string]string{
		"grep": "rR", "egrep": "rR", "fgrep": "rR", "zgrep": "rR", "ggrep": "rR", "cp": "rRa", "gcp": "rRa", "gzip": "r",
		"install": "r", "sed": "r", "chcon": "R", "setfacl": "R", "chmod": "R", "chown": "R",
	}
	// renamers give files, or folders with their contents, another name that they are reachable by afterwards.
	renamers = wordset.Of("mv gmv ln gln")
	// searchers take a pattern before the files.
	searchers        = wordset.Of("grep egrep fgrep zgrep ggrep rg ag ack ugrep ug fd fdfind")
	recursiveOptions = wordset.Of("--recursive --dereference-recursive --archive --directories=recurse")
	// fileActions are options of find and fd that use the files; without one, only names are listed.
	fileActions = wordset.Of("-exec -execdir -ok -okdir -x -X --exec --exec-batch -fprint -fprintf -delete")
	// opensNothing are programs that open none of the files that their words may name.
	opensNothing = wordset.Of(`echo printf print export kill sleep exit return date seq expr test [ [[ ]] set unset read let wait
		jobs true false : cd pushd popd dirname basename hostname whoami declare local typeset readonly shift break continue trap
		type which command pwd id`)
)

// throughFolder returns the protected path below a folder that a command walks through and reads.
func (k *keyReading) throughFolder(words []string, dirs []place, piped bool) string {
	if len(words) == 0 {
		return ""
	}
	program, args := words[0][strings.LastIndexByte(words[0], '/')+1:], words[1:]
	current := false // the current folder, if the command names no other
	switch {
	case walkers[program]:
		current = true
	case argWalkers[program]:
		if program == "tree" && !piped {
			return ""
		}
	case program == "find" || program == "gfind" || program == "bfs":
		if !piped && !slices.ContainsFunc(args, func(a string) bool { return fileActions[a] }) {
			return ""
		}
		current = true
	case renamers[program]:
		return k.renamed(args, dirs)
	case program == "git":
		if at := slices.Index(args, "mv"); at >= 0 {
			return k.renamed(args[at+1:], dirs)
		}
		kept := slices.ContainsFunc(args, func(a string) bool { return showsFiles[a] }) && k.tracked(dirs)
		k.unclear = k.unclear || kept
		if !slices.Contains(args, "--no-index") && !slices.Contains(args, "--untracked") && !(kept && slices.Contains(args, "grep")) {
			return ""
		}
		current = true
	case program == "python" || program == "python3":
		if !slices.Contains(args, "http.server") {
			return ""
		}
		current = true
	case program == "docker" || program == "podman":
		return k.mounts(args, dirs)
	default:
		letters, known := optionWalkers[program]
		if !known || program == "sed" || program == "install" || !hasRecursiveOption(args, letters) {
			return ""
		}
		current = strings.HasSuffix(program, "grep")
	}
	takes := takenBy(program, args)
	some := false
	pattern := searchers[program] && !slices.ContainsFunc(args, func(a string) bool { return a == "-e" || a == "-f" || strings.HasPrefix(a, "--regexp") })
	for i, a := range args {
		if a == "" || a[0] == '-' && !strings.Contains(a, "=") && !(len(a) > 2 && a[1] == 'C') {
			continue
		}
		if program != "tar" && i > 0 && a[0] != '-' && valued(program, args[i-1]) {
			continue
		}
		first := pattern
		pattern = pattern && a[0] == '-'
		for _, dir := range dirs {
			for _, m := range k.expand(strings.TrimPrefix(a, "-C"), dir) {
				if strings.ContainsRune(m, anything) {
					continue // see word
				}
				for _, value := range valuesOf(m) {
					path := k.g.resolve(value, dir.dir)
					if _, err := os.Lstat(path); err == nil && !first {
						some = true
					}
					for _, p := range k.folders(path) {
						if held := k.protectedInFolder(p, takes); held != "" {
							return held
						}
					}
				}
			}
		}
	}
	if !current || some {
		return ""
	}
	for _, dir := range dirs {
		if dir.dir == "" {
			continue
		}
		if held := k.protectedInFolder(dir.dir, takes); held != "" {
			return held
		}
	}
	return ""
}

// folders returns the folders that a word names, directly or as a pattern.
func (k *keyReading) folders(path string) (found []string) {
	names := []string{path}
	if strings.ContainsAny(path, "*?[") {
		names, _ = filepath.Glob(strings.ReplaceAll(path, "[!", "[^"))
	}
	for _, n := range names {
		if info, err := os.Stat(n); err == nil && info.IsDir() {
			found = append(found, n)
		}
	}
	return found
}

// mounts returns the protected path in a folder that a container command mounts or copies.
func (k *keyReading) mounts(args []string, dirs []place) string {
	for i, a := range args {
		var folder string
		switch {
		case (a == "-v" || a == "--volume") && i+1 < len(args):
			folder, _, _ = strings.Cut(args[i+1], ":")
		case strings.HasPrefix(a, "--volume="):
			folder, _, _ = strings.Cut(strings.TrimPrefix(a, "--volume="), ":")
		case strings.HasPrefix(a, "--mount="), i > 0 && args[i-1] == "--mount":
			for part := range strings.SplitSeq(strings.TrimPrefix(a, "--mount="), ",") {
				if name, value, _ := strings.Cut(part, "="); name == "source" || name == "src" {
					folder = value
				}
			}
		case i > 0 && args[i-1] == "cp", a == "." && slices.Contains(args, "build"):
			folder = a
		}
		if folder == "" {
			continue
		}
		for _, dir := range dirs {
			for _, m := range k.expand(folder, dir) {
				if !filepath.IsAbs(m) {
					m = filepath.Join(dir.dir, m)
				}
				if held := k.g.below(filepath.Clean(m), anyFile); held != "" {
					return held
				}
			}
		}
	}
	return ""
}

// renamed returns the protected path in a folder that is renamed or linked. The last operand is the new name or the target folder; links
// are resolved from there.
func (k *keyReading) renamed(args []string, dirs []place) string {
	var operands []string
	into := false // an option names the target folder
	for _, a := range args {
		into = into || strings.HasPrefix(a, "-t") || strings.HasPrefix(a, "--target")
		if !strings.HasPrefix(a, "-") || strings.Contains(a, "=") {
			operands = append(operands, a)
		}
	}
	last := ""
	if len(operands) > 1 && !into {
		last, operands = operands[len(operands)-1], operands[:len(operands)-1]
	}
	for _, dir := range dirs {
		from := []string{dir.dir}
		if last != "" {
			to := last
			if !filepath.IsAbs(to) {
				to = filepath.Join(dir.dir, to)
			}
			from = append(from, to, filepath.Dir(to))
		}
		for _, o := range operands {
			for _, m := range k.expand(o, dir) {
				if strings.ContainsRune(m, anything) {
					continue // see word
				}
				for _, in := range from {
					path := spelled(m, in)
					if led := k.g.resolveLinks(path, dir.dir); led.by == ownProcess {
						path = led.path
					}
					for _, folder := range k.folders(path) {
						if held := k.g.below(filepath.Clean(folder), anyFile); held != "" {
							return held
						}
					}
				}
			}
		}
	}
	return ""
}

// maxIndex limits the size of a git index that is read.
const maxIndex = 64 << 20

// showsFiles are git commands that print or export files of the repository.
var showsFiles = wordset.Of(`grep diff show log stash archive cat-file blame annotate format-patch bundle fast-export whatchanged checkout
	restore worktree`)

// tracked reports whether a key file is, or may be, tracked by the repository that git finds from one of the directories. git neither
// searches nor shows other files.
func (k *keyReading) tracked(dirs []place) bool {
	for _, dir := range dirs {
		root := dir.real
		for root != "" && root != "/" {
			if _, err := os.Lstat(filepath.Join(root, ".git")); err == nil {
				break
			}
			root = filepath.Dir(root)
		}
		var names [][]byte
		for _, f := range k.g.keyFiles() {
			for _, key := range [...]string{f.asked, f.real} {
				if rest, below := strings.CutPrefix(key, root+"/"); below && root != "" {
					names = append(names, []byte(rest+"\x00"))
				}
			}
		}
		if len(names) == 0 || root == "/" {
			continue
		}
		index, err := regular.Read(filepath.Join(root, ".git", "index"), maxIndex)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil, len(index) < 8, index[7] > 3: // version 4 does not contain whole names
			return true
		case slices.ContainsFunc(names, func(name []byte) bool { return bytes.Contains(index, name) }):
			return true
		}
	}
	return false
}

func hasRecursiveOption(args []string, letters string) bool {
	for i, a := range args {
		if recursiveOptions[a] || isRecursive(a, letters) || a == "recurse" && i > 0 && (args[i-1] == "-d" || args[i-1] == "--directories") {
			return true
		}
	}
	return false
}

func isRecursive(option, letters string) bool {
	if len(option) < 2 || option[0] != '-' || option[1] == '-' {
		return false
	}
	for _, c := range option[1:] {
		if strings.ContainsRune(letters, c) {
			return true
		}
		if c >= '0' && c <= '9' || strings.ContainsRune("efmABCDdgt", c) { // the rest is a value
			return false
		}
	}
	return false
}

// valued reports whether an option takes the next word as its value, which then is not a folder.
func valued(program, option string) bool {
	switch {
	case strings.HasSuffix(program, "grep"), program == "rg", program == "ag", program == "ack":
		return slices.Contains([]string{"-e", "-f", "-m", "-A", "-B", "-C", "-g", "-t", "-T", "--glob", "--type", "--regexp", "--include", "--exclude"}, option)
	case strings.HasSuffix(program, "find"):
		return strings.HasPrefix(option, "-") && strings.HasSuffix(option, "name")
	}
	return false
}

// takenBy returns a function that reports whether a command reads a file, for commands that select files by name.
func takenBy(program string, args []string) func(path string) bool {
	var names []string
	for i, a := range args {
		switch {
		case strings.HasSuffix(program, "find") && (a == "-name" || a == "-iname") && i+1 < len(args):
			if i > 0 && (args[i-1] == "!" || args[i-1] == "-not") || slices.Contains(args, "-o") || slices.Contains(args, "-or") {
				return anyFile
			}
			names = append(names, args[i+1])
		case strings.HasSuffix(program, "grep") && strings.HasPrefix(a, "--include="):
			names = append(names, strings.TrimPrefix(a, "--include="))
		}
	}
	return func(path string) bool {
		if len(names) == 0 {
			return true
		}
		files := []string{filepath.Base(path)}
		entries, _ := os.ReadDir(path) // of a folder
		for _, e := range entries {
			files = append(files, e.Name())
		}
		return slices.ContainsFunc(names, func(n string) bool {
			return slices.ContainsFunc(files, func(file string) bool {
				ok, err := filepath.Match(strings.ToLower(strings.ReplaceAll(n, "[!", "[^")), strings.ToLower(file))
				return ok || err != nil || strings.ContainsAny(n, "$`{")
			})
		})
	}
}

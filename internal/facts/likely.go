package facts

import (
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Likely returns the files that a simple command most likely reads or writes by its words, including its redirections.
// For a program that Of does not know completely ("cp", "sed -i", "python3 x.py"), it uses the usual meaning of the
// operands. It omits words that are known only when the command runs.
//
// The result is for display: it may have too many or too few files, so no decision may depend on it. It uses sub.Facts
// if they are set. cwd is as for Of.
func Likely(sub *permissionv1.SubCommand, cwd string) []*permissionv1.FileUse {
	l := &likely{sub: sub, cwd: cwd}
	known := sub.GetFacts()
	if known == nil {
		known = Of(sub, cwd, nil)
	}
	for _, file := range known.GetFiles() {
		if file.GetPath() != "" {
			l.uses = append(l.uses, file)
		}
	}
	if !known.GetKnown() {
		l.program()
	}
	for _, r := range sub.GetRedirections() {
		if !r.GetDynamic() {
			l.file(r.GetPath(), r.GetOperator() != "<")
		}
	}
	return l.uses
}

// likely collects the files of a simple command.
type likely struct {
	sub  *permissionv1.SubCommand
	cwd  string
	uses []*permissionv1.FileUse
}

// usage is the usual meaning of a program's operands.
type usage struct {
	// operands is one of:
	//   read, write             each operand is a file that is read, or written
	//   copy                    the last operand is written, the others are read
	//   script                  the first operand is a file that is read, the others are arguments
	//   text read, text write   like read and write, but the first operand is not a file
	operands string
	// options are options with a value, "-o=write". The role of the value is text, read, write, or into, the target
	// folder of a copy.
	options string
	// writes are options with which operands that are read are also written.
	writes string
	// code are options that replace the first operand of text and script: their value is the code that runs.
	code string
}

// usages are the usages of programs, and of commands of git ("git add").
var usages = func() map[string]usage {
	byName := map[string]usage{}
	for names, u := range map[string]usage{
		"rm rmdir unlink shred touch mkdir tee mv gzip gunzip bzip2 bunzip2 xz unxz zstd": {operands: "write", options: "-t=into --target-directory=into -m=text -S=text -n=text"},
		"truncate":                {operands: "write", options: "-s=text --size=text -r=read --reference=read"},
		"cp ln rsync scp install": {operands: "copy", options: "-t=into --target-directory=into -S=text -m=text -o=text -g=text -e=text -i=read -P=text --exclude=text --include=text"},
		"chmod chown chgrp":       {operands: "text write", code: "--reference"},
		"sed gsed":                {operands: "text read", options: "-l=text -f=read --file=read -e=text --expression=text", writes: "-i --in-place -I", code: "-e --expression -f --file"},
		"perl":                    {operands: "script", options: "-e=text -E=text -I=text -M=text", writes: "-i", code: "-e -E"},
		"python python2 python3 pypy3 node nodejs bun ruby php lua tsx ts-node bash sh zsh dash ksh": {
			operands: "script", options: "-c=text -m=text -e=text -p=text -r=text -W=text -X=text -I=text --eval=text --print=text --require=text --import=text --loader=text",
			code: "-c -m -e -p -r --eval --print"},
		"black isort rustfmt autopep8 gofumpt goimports": {operands: "write", options: "-l=text --line-length=text -S=text --config=text --edition=text"},
		"prettier eslint clang-format gofmt biome":       {operands: "read", options: "-c=read --config=read --ext=text --parser=text", writes: "-w --write --fix -i"},
		"patch":                                  {operands: "write", options: "-p=text -i=read --input=read -o=write --output=write -d=text"},
		"zip":                                    {operands: "write", options: "-x=text"},
		"curl":                                   {operands: "", options: "-o=write --output=write -T=read --upload-file=read -K=read -H=text -X=text -d=text -u=text -A=text"},
		"wget":                                   {operands: "", options: "-O=write --output-document=write -o=write -i=read"},
		"gcc g++ cc c++ clang clang++ rustc tsc": {operands: "read", options: "-o=write -D=text -I=text -L=text -l=text -x=text --target=text --module=text --outDir=text"},
		"git add git apply git am":               {operands: "read", options: "-p=text --chmod=text"},
		"git rm git mv":                          {operands: "write"},
		"git restore":                            {operands: "write", options: "-s=text --source=text"},
		"git commit":                             {operands: "read", options: "-m=text -F=read --file=read -C=text -c=text --author=text --date=text --message=text -t=read"},
	} {
		for name := range strings.FieldsSeq(strings.ReplaceAll(names, "git ", "git_")) {
			byName[strings.Replace(name, "_", " ", 1)] = u
		}
	}
	return byName
}()

// program adds the files that the program's words name.
func (l *likely) program() {
	argv := l.sub.GetArgv()
	if len(argv) == 0 || shell.DynamicWord(l.sub, 0) {
		return
	}
	name, at := path.Base(argv[0]), 1
	switch name {
	case "dd":
		for i, word := range argv[1:] {
			for prefix, write := range map[string]bool{"if=": false, "of=": true} {
				if file, ok := strings.CutPrefix(word, prefix); ok && !shell.DynamicWord(l.sub, i+1) {
					l.file(file, write)
				}
			}
		}
		return
	case "git":
		var command string
		if command, at = l.git(argv); command == "" {
			return
		}
		name += " " + command
	}
	u, known := usages[name]
	if !known {
		return
	}
	if l.named(u, at) && name == "zip" && len(l.uses) > 1 { // the archive comes first
		for _, use := range l.uses[1:] {
			use.Access = permissionv1.Access_ACCESS_READ
		}
	}
}

// git returns the command of git, and the position after it. The words after "--" of "git checkout" are written.
func (l *likely) git(argv []string) (command string, at int) {
	for at = 1; at < len(argv); at++ {
		switch word := argv[at]; {
		case word == "-C": // the parser of the line has removed those that are certain
			at++
			l.cwd = ""
		case word == "-c":
			at++
		case strings.HasPrefix(word, "-"):
		case word == "checkout":
			if dashes := slices.Index(argv, "--"); dashes > 0 {
				return "rm", dashes // its operands are written, too
			}
			return "", 0
		default:
			return word, at + 1
		}
	}
	return "", 0
}

// named adds the files that the words from position at on name. It returns false if there are none.
func (l *likely) named(u usage, at int) bool {
	argv := l.sub.GetArgv()
	roles := map[string]string{}
	for option := range strings.FieldsSeq(u.options) {
		name, role, _ := strings.Cut(option, "=")
		roles[name] = role
	}
	is := func(list, option string) bool { return slices.Contains(strings.Fields(list), option) }
	writes, code, into := false, false, ""
	before := len(l.uses)
	value := func(role string, i int, text string) {
		if shell.DynamicWord(l.sub, i) {
			return
		}
		switch role {
		case "read", "write":
			l.file(text, role == "write")
		case "into":
			into = text
		}
	}
	var operands []int
	for ; at < len(argv); at++ {
		word := argv[at]
		if word == "--" {
			for at++; at < len(argv); at++ {
				operands = append(operands, at)
			}
			break
		}
		if word == "" { // the suffix of a backup for sed of BSD: sed -i '' SCRIPT FILE
			continue
		}
		if len(word) < 2 || word[0] != '-' {
			if operands = append(operands, at); u.operands == "script" && !code {
				break // the arguments of the script follow
			}
			continue
		}
		name, attached, has := strings.Cut(word, "=")
		if !strings.HasPrefix(word, "--") { // "-ofile", "-so file", "-i.bak"
			name, attached, has = word, "", false
			for i := 1; i < len(word); i++ {
				short := "-" + word[i:i+1]
				writes, code = writes || is(u.writes, short), code || is(u.code, short)
				if roles[short] == "" {
					if is(u.writes, short) {
						break // the rest is the suffix of a backup
					}
					continue
				}
				name, attached, has = short, word[i+1:], i+1 < len(word)
				break
			}
		}
		writes, code = writes || is(u.writes, name), code || is(u.code, name)
		switch role := roles[name]; {
		case role == "":
		case has:
			value(role, at, attached)
		case at+1 < len(argv):
			at++
			value(role, at, argv[at])
		}
	}
	if u.operands == "script" && code && !writes {
		operands = nil
	}
	if strings.HasPrefix(u.operands, "text ") && !code && len(operands) > 0 {
		operands = operands[1:]
	}
	var sources []string
	for i, at := range operands {
		if u.operands == "" || shell.DynamicWord(l.sub, at) {
			continue
		}
		file := argv[at]
		switch {
		case u.operands == "copy" && into == "" && i == len(operands)-1 && i > 0:
			into = file
			if len(operands) == 2 && !isFolder(file) {
				l.file(file, true)
				into = ""
			}
		case u.operands == "copy":
			l.file(file, false)
			sources = append(sources, file)
		default:
			l.file(file, writes || strings.HasSuffix(u.operands, "write"))
			sources = append(sources, file)
		}
	}
	for _, file := range sources {
		if into != "" {
			l.file(path.Join(into, path.Base(file)), true)
		}
	}
	return len(l.uses) > before
}

// isFolder reports whether a name can only be that of a folder.
func isFolder(name string) bool {
	return strings.HasSuffix(name, "/") || path.Base(name) == "." || path.Base(name) == ".."
}

// file adds a file. It skips names of other machines, of standard input and of devices, and the folder itself.
func (l *likely) file(name string, write bool) {
	if name == "" || name == "-" || strings.Contains(name, "://") || strings.ContainsRune(name, 0) {
		return
	}
	if remote, _, ok := strings.Cut(name, ":"); ok && len(l.sub.GetArgv()) > 0 && !strings.Contains(remote, "/") {
		if program := path.Base(l.sub.GetArgv()[0]); program == "scp" || program == "rsync" {
			return
		}
	}
	if !path.IsAbs(name) && l.cwd == "" {
		return
	}
	file := path.Clean(paths.Under(l.cwd, name))
	if path.IsAbs(name) {
		file = path.Clean(name)
	}
	if file == path.Clean(l.cwd) || special(file) || file == "/dev/null" || len(l.uses) == maxFiles {
		return
	}
	access := permissionv1.Access_ACCESS_READ
	if write {
		access = permissionv1.Access_ACCESS_WRITE
	}
	for _, have := range l.uses {
		if have.GetPath() == file && have.GetAccess() == access {
			return
		}
	}
	l.uses = append(l.uses, &permissionv1.FileUse{Path: file, Access: access})
}

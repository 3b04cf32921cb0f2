package leaveout

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/acphost/acphost/internal/fold"
	"github.com/acphost/acphost/internal/git"
)

const (
	// firstRead and laterRead are how long the history of a repository is read for one decision: the first one about it, and
	// others. A history that is longer is read on by later decisions.
	firstRead = 150 * time.Millisecond
	laterRead = 10 * time.Millisecond
	// maxRepositories bounds the repositories that are remembered, and maxTracked the files of an index.
	maxRepositories = 32
	maxTracked      = 1 << 20
)

// Kept is what a repository keeps of forbidden files.
type Kept struct {
	// Names are the names of such files, as Found.Names.
	Names []string
	// Specs are pathspecs by which git leaves out all forbidden files that it keeps, or may keep.
	Specs []string
	// Incomplete: the repository may keep more than Names say, because not all of it could be read.
	Incomplete bool
	// Odd: git does not take the names of some for what the policy does, so that pathspecs do not help.
	Odd bool
}

// Repositories tells which forbidden files repositories keep. It remembers what it has read of them. The zero value is ready for
// use. It is safe for concurrent use.
type Repositories struct {
	mu  sync.Mutex
	all map[string]*repository
}

// Kept says which files that match the globs, in the form that New takes, a repository keeps in its index and, if history is set,
// in any commit. changing: it may keep others when that matters, so that all globs count. gitDir is an absolute path ("/w/.git").
func (r *Repositories) Kept(gitDir string, globs []string, history, changing bool) Kept {
	repo := r.repository(gitDir, globs)
	repo.mu.Lock()
	defer repo.mu.Unlock()
	k := repo.index()
	if history {
		repo.commits(&k)
	}
	if changing {
		k.Incomplete = true
		repo.everything(&k)
	}
	return k
}

func (r *Repositories) repository(gitDir string, globs []string) *repository {
	key := gitDir + "\x00" + strings.Join(globs, "\x00")
	r.mu.Lock()
	defer r.mu.Unlock()
	repo := r.all[key]
	if repo == nil {
		if len(r.all) >= maxRepositories || r.all == nil {
			r.all = map[string]*repository{}
		}
		repo = newRepository(gitDir, globs)
		r.all[key] = repo
	}
	return repo
}

// repository is one, and globs.
type repository struct {
	top   string
	own   string // the folder with the index
	globs []trackedGlob
	parts map[string]*part // by their folded patterns
	exact map[string]*part
	wild  []*part

	mu      sync.Mutex // guards what follows
	stat    fs.FileInfo
	kept    Kept // by the index
	read    bool // the history was read before
	history *git.History
	names   map[string]bool // that were looked at
}

// trackedGlob is a glob without braces.
type trackedGlob struct {
	text  string // folded; absolute, or with "**/" in front
	parts []*part
	specs []string
}

// part is what lies between two slashes in globs.
type part struct {
	pattern, before, behind string // folded; what every match begins and ends with
	seen                    string // the first name of the history that matches
	odd                     bool   // so does one that git reads in another way
}

func newRepository(gitDir string, globs []string) *repository {
	own, common := git.Folders(gitDir)
	r := &repository{own: own, top: filepath.Dir(gitDir), parts: map[string]*part{}, exact: map[string]*part{}, names: map[string]bool{},
		history: git.NewHistory(common)}
	for _, g := range globs {
		for _, one := range unbraced(g) {
			r.add(one)
		}
	}
	return r
}

// add takes a glob, unless whatever it matches lies outside of the repository.
func (r *repository) add(text string) {
	relative := text
	if strings.HasPrefix(text, "/") {
		fixed := text
		if i := strings.IndexAny(text, `*?[\`); i >= 0 {
			fixed = text[:strings.LastIndexByte(text[:i], '/')+1]
		}
		inside, ok := cutTop(text, r.top)
		switch {
		case ok:
			relative = inside
		case fixed != text && (strings.Contains(text, `\`) || strings.HasPrefix(fold.Path(r.top)+"/", fold.Path(fixed))):
			relative = "**/" + strings.TrimPrefix(lastPart(text), "**/")
		default:
			return
		}
	}
	g := trackedGlob{text: fold.Path(text)}
	if strings.HasPrefix(g.text, "**") {
		g.text = "/" + g.text
	}
	for p := range strings.SplitSeq(fold.Path(relative), "/") {
		if p != "**" && p != "" {
			g.parts = append(g.parts, r.part(p))
		}
	}
	g.specs = append(g.specs, ":(top,exclude,icase,glob)"+relative)
	if file, ok := strings.CutSuffix(relative, "/**"); ok {
		g.specs = append(g.specs, ":(top,exclude,icase,glob)"+file)
	}
	r.globs = append(r.globs, g)
}

// cutTop is what an absolute glob matches below a folder, if the folder stands in the glob as it is.
func cutTop(text, top string) (string, bool) {
	top = strings.TrimSuffix(top, "/")
	for _, dir := range []string{top, escaped(top)} {
		if n := len(dir); len(text) > n+1 && text[n] == '/' && strings.EqualFold(text[:n], dir) {
			return text[n+1:], true
		}
	}
	return "", false
}

// lastPart is the last part of a glob, with "/**" where that stands behind.
func lastPart(text string) string {
	below := ""
	if rest, ok := strings.CutSuffix(text, "/**"); ok {
		text, below = rest, "/**"
	}
	return text[strings.LastIndexByte(text, '/')+1:] + below
}

func (r *repository) part(pattern string) *part {
	if p := r.parts[pattern]; p != nil {
		return p
	}
	p := &part{pattern: pattern}
	r.parts[pattern] = p
	if !strings.ContainsAny(pattern, `*?[\{`) {
		r.exact[pattern] = p
		return p
	}
	if !strings.ContainsAny(pattern, `\{`) {
		p.before = pattern[:strings.IndexAny(pattern, "*?[")]
		p.behind = pattern[strings.LastIndexAny(pattern, "*?]")+1:]
	}
	r.wild = append(r.wild, p)
	return p
}

// matching calls f with the parts of globs that a name matches.
func (r *repository) matching(name string, f func(p *part)) {
	folded := fold.Path(name)
	if p := r.exact[folded]; p != nil {
		f(p)
	}
	for _, p := range r.wild {
		if strings.HasPrefix(folded, p.before) && strings.HasSuffix(folded, p.behind) && doublestar.MatchUnvalidated(p.pattern, folded) {
			f(p)
		}
	}
}

// index says what the index has. An index that is the same file as before has the same.
func (r *repository) index() Kept {
	file := filepath.Join(r.own, "index")
	info, err := os.Stat(file)
	if err == nil && r.stat != nil && os.SameFile(info, r.stat) && info.Size() == r.stat.Size() && info.ModTime().Equal(r.stat.ModTime()) {
		return r.kept.clone()
	}
	r.stat, r.kept = info, Kept{}
	names, err := git.Tracked(file, maxTracked)
	if err != nil {
		r.kept.Incomplete = true
		r.everything(&r.kept)
	}
	before := "" // the last folder that was looked at, in which no part of a name matches
	for _, name := range names {
		dir := name[:strings.LastIndexByte(name, '/')+1]
		from := 0
		if dir == before && dir != "" {
			from = len(dir)
		}
		candidate := strings.HasPrefix(name, "(") // git may take a pathspec for that file
		for one := range strings.SplitSeq(name[from:], "/") {
			r.matching(one, func(*part) { candidate = true })
		}
		if !candidate {
			before = dir
			continue
		}
		r.tracked(name)
	}
	return r.kept.clone()
}

// tracked adds a file of the index, if a glob matches it.
func (r *repository) tracked(name string) {
	if strings.HasPrefix(name, "(") {
		r.kept.Odd = true
	}
	path := fold.Path(filepath.Join(r.top, name))
	for i := range r.globs {
		if g := &r.globs[i]; doublestar.MatchUnvalidated(g.text, path) {
			r.kept.add(name[strings.LastIndexByte(name, '/')+1:], g.specs)
			r.kept.Odd = r.kept.Odd || !plain(name)
		}
	}
}

// commits adds what the history has.
func (r *repository) commits(k *Kept) {
	long := firstRead
	if r.read {
		long = laterRead
	}
	r.read = true
	complete := r.history.Read(time.Now().Add(long), func(name []byte) {
		if !r.names[string(name)] {
			r.names[string(name)] = true
			r.matching(string(name), func(p *part) {
				p.odd = p.odd || !plain(string(name))
				if p.seen == "" {
					p.seen = string(name)
				}
			})
		}
	})
	for _, g := range r.globs {
		if slices.ContainsFunc(g.parts, func(p *part) bool { return p.seen == "" }) {
			continue
		}
		name := "all files"
		for _, p := range g.parts {
			name = p.seen
			k.Odd = k.Odd || p.odd
		}
		k.add(name, g.specs)
	}
	if !complete {
		k.Incomplete = true
		r.everything(k)
	}
}

// everything adds the pathspecs of all globs.
func (r *repository) everything(k *Kept) {
	for _, g := range r.globs {
		k.addSpecs(g.specs)
	}
}

func (k *Kept) add(name string, specs []string) {
	if !slices.Contains(k.Names, name) && len(k.Names) < maxNames {
		k.Names = append(k.Names, name)
	}
	k.addSpecs(specs)
}

func (k *Kept) addSpecs(specs []string) {
	for _, s := range specs {
		if !slices.Contains(k.Specs, s) {
			k.Specs = append(k.Specs, s)
		}
	}
}

func (k *Kept) clone() Kept {
	c := *k
	c.Names, c.Specs = slices.Clone(k.Names), slices.Clone(k.Specs)
	return c
}

// plain reports whether git compares a name without regard to case as a policy does.
func plain(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf })
}

// Rewrite is a command of git's, and the same told to leave files out.
type Rewrite struct{ Argv, Told []string }

// quietGit are options of git's own that change nothing of what pathspecs mean.
var quietGit = []string{"--no-pager", "-P", "--no-optional-locks", "--no-replace-objects", "--no-lazy-fetch", "--no-advice"}

// rewritten is a command of git's told to leave files out; nil: it is none of the rewrites.
func rewritten(argv []string, rewrites []Rewrite) []string {
	i := 1
	for i < len(argv) && (argv[i] == "-C" || slices.Contains(quietGit, argv[i])) {
		if argv[i] == "-C" {
			i++
		}
		i++
	}
	var told []string
	for _, r := range rewrites {
		switch {
		case i > len(argv) || len(r.Argv) < 1 || !slices.Equal(r.Argv[1:], argv[i:]):
		case told == nil:
			told = slices.Concat(argv[:i], r.Told[1:])
		case !slices.Equal(told[i:], r.Told[1:]):
			return nil
		}
	}
	return told
}
